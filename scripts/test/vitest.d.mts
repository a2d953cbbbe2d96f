/** A test that failed, with its errors. */
export interface Failure {
  readonly name: string;
  readonly messages: readonly string[];
}
/** A file of the JSON report of vitest. */
export interface FileResult {
  readonly name: string;
  readonly status: string;
  readonly message: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly failureMessages: readonly string[];
  }[];
}
export function failuresOf(file: FileResult): Failure[];
export function failuresText(failures: readonly Failure[]): string;
