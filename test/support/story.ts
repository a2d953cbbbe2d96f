import type { OperatorProcess } from "./operator.ts";
import type { PageState } from "./scene.ts";

/** Who plays a story from its first disturbed request on, and who takes the place of an operator that was killed. */
export interface Cast {
  /** Starts an operator, or does what the story does; resolves to the operator whose requests count. */
  readonly play: () => Promise<OperatorProcess>;
  readonly replace: () => Promise<OperatorProcess>;
  /** Ends the operators that wait to replace another. */
  readonly endOthers?: (than: OperatorProcess) => Promise<void>;
}

/** Something that people do with an operator, whose requests are counted so that each of them can be disturbed. */
export interface Story {
  readonly name: string;
  readonly args?: readonly string[];
  /** Played at each change of the code, and not only with LONG=1: all of these together take a minute. */
  readonly isShort?: boolean;
  /** Has only the modules and hooks that `furnish` adds. */
  readonly isBare?: boolean;
  /** Objects of the picture, as `KIND NAME`, that `look` shows in another way. */
  readonly hidden?: readonly string[];
  /** Adds files and objects to the scene before the first start. */
  readonly furnish?: (pageState: PageState) => Promise<void> | void;
  /** An operator takes the Lease: that write counts, but not those that renew it. */
  readonly takesLease?: boolean;
  /** What is done after the first converge. Without it, the first converge is the story. */
  readonly act?: (pageState: PageState) => Promise<void>;
  /** Several operators, in place of one that its like replaces. */
  readonly cast?: (pageState: PageState) => Promise<Cast>;
  /** Objects that the picture of the namespace does not contain; may throw before the end. */
  readonly look?: (pageState: PageState) => Promise<unknown>;
  /** Says of the state at rest, as JSON, that nothing is left to do. */
  readonly isOver: (state: string) => boolean;
}

/** Says of the state of a story, as JSON, that both modules of the scene are installed. */
export const hasBoth = (state: string): boolean =>
  state.includes('"app":"deployed inputs managed-by","base":"deployed inputs managed-by"');
