/** A module, or a directory of hooks that belong to no module. */
export interface Unit {
  kind: "module" | "hooks";
  dir: string;
  name: string;
  /** Of a module, without its number. */
  moduleName?: string;
}

/** `enabled-module` → `enabledModule`. */
export declare function camelCase(name: string): string;
/** Modules and directories of hooks below `dir`. */
export declare function findUnits(dir: string): Unit[];
/** Paths of the hooks directly in a directory. */
export declare function hooksIn(dir: string): string[];
/** Whether it is an executable that is no hook. */
export declare function isOtherScript(file: string): boolean;
