type Environment = Readonly<Record<string, string | undefined>>;

export declare const versions: { kubernetes: string; etcd: string; helm: string; helm3: string };
export declare const compatible: { oldest: string; previous: string; newest: string };
export declare const toolNames: readonly string[];
export declare const root: string;
export declare function cacheRoot(env?: Environment, homeOfUser?: () => string): string;
export declare function cacheDir(env?: Environment): string;
