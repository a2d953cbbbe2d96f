import type { Tools } from "../control-plane.d.mts";

type Environment = Readonly<Record<string, string | undefined>>;

export declare function variableOf(tool: string): string;
export declare function isExecutable(path: string): boolean;
export declare function onPath(name: string, env?: Environment): string | undefined;
export declare function own(tool: string, env?: Environment): string | undefined;
export declare function locate(
  env?: Environment,
  names?: readonly string[],
): { found: Partial<Tools>; missing: string[] };
export declare function tools(env?: Environment, names?: readonly string[]): Tools;
export declare function toolsEnv(found: Partial<Tools>): Record<string, string>;
export declare function modernNode(): string;
