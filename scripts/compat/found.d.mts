type Environment = Readonly<Record<string, string | undefined>>;

export interface Jq {
  readonly file: string;
  /** As it says itself: `jq-1.7.1`. */
  readonly version: string;
}
export interface Shell {
  readonly name: string;
  /** The command that runs another one with this shell as `/bin/sh`. */
  readonly before: readonly string[];
}
export function findJqs(env?: Environment): Jq[];
export function findShells(env?: Environment): { shells: Shell[]; missing?: string };
