export declare const namespace: string;
/** Each block of the page by its name, with the command that fills it. */
export declare const commands: Readonly<Record<string, string>>;
/** Writes a module that fails below `dir`; returns its modules directory. */
export declare function writeBroken(dir: string): string;
/** Creates namespace and ConfigMap, before the operator starts. */
export declare function createFirst(kubectl: (args: readonly string[]) => Promise<string>): Promise<void>;
/** Runs all commands in the states they are to show. */
export declare function captureAll(
  kubectl: (args: readonly string[]) => Promise<string>,
): Promise<Record<string, string>>;
