export declare function proxyFor(
  url: string,
  env?: Readonly<Record<string, string | undefined>>,
): URL | undefined;
