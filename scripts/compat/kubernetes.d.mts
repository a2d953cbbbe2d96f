type Environment = Readonly<Record<string, string | undefined>>;

export declare const serverTools: readonly string[];
export function serverEnv(version: string, env?: Environment): Promise<Record<string, string>>;
export function publishedVersions(env?: Environment): Promise<string[]>;
export function mustBe(path: string, version: string): Promise<void>;
export function standAlone(text: string, version: string): { text: string; unused: string[] };
