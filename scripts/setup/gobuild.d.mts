export declare function countdown(
  total: number,
  minutes: number,
  now?: () => number,
): { onText: (text: string) => void; detail: () => string };
type Environment = Readonly<Record<string, string | undefined>>;
export declare function build(what: {
  go: string;
  missing: readonly string[];
  dir: string;
  env: Environment;
}): Promise<string[]>;
