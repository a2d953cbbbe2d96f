/** Why something is to be done. */

import type { LifecycleName } from "./binding.ts";

/** Why something is owed, and where in `main` it goes: changes of configuration go to the front. */
export interface Cause {
  readonly text: string;
  readonly place: "front" | "back";
  /** Binding of the lifecycle hook that made the change. */
  readonly binding?: LifecycleName;
}
