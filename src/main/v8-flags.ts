/** Flags of V8 that save memory and processor time. */

import { setFlagsFromString } from "node:v8";

/**
 * V8 compiles no code with its baseline compiler, which costs memory without making the operator faster, and does not optimize the parser of
 * HTTP answers, a large WebAssembly function: that takes longer than it saves in hours.
 */
const FLAGS = ["--no-sparkplug", "--no-wasm-tier-up", "--no-wasm-dynamic-tiering"];

/**
 * Sets the flags. Call it when the code of the operator is loaded, and before the first request: compiled code is only valid for the flags
 * with which it was compiled, so with flags on its command line, Node compiles its own modules at each start.
 */
export function setV8Flags(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}
