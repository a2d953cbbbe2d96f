export declare function offered(
  env?: Readonly<Record<string, string | undefined>>,
  ask?: (question: string) => Promise<boolean>,
): Promise<string | undefined>;
