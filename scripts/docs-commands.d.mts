export interface Printed {
  /** `reference/status.md` */
  page: string;
  /** A line, or a whole script. */
  text: string;
}
export declare const STARTS: RegExp;
export declare function printedLines(): Printed[];
export declare function printedScripts(): Printed[];
export declare function printsArchive(line: string): boolean;
export declare function inPod(line: string): string | undefined;
