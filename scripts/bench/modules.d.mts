export declare function nameOf(index: number): string;

export declare function writeModules(
  dir: string,
  count: number,
  options?: {
    data?: (name: string) => string;
    files?: (name: string) => Readonly<Record<string, string>>;
    number?: number;
  },
): string;
