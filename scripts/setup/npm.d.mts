type Environment = Readonly<Record<string, string | undefined>>;

export declare function dependenciesCurrent(root: string, options?: { dev?: boolean }): boolean;
export declare function npmEnv(env: Environment): Record<string, string | undefined>;
export declare function installDependencies(
  root: string,
  env: Environment,
  options?: { dev?: boolean },
): Promise<void>;
