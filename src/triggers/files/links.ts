/** Where the links lie that a path leads through. */

import { lstatSync, readlinkSync } from "node:fs";
import { isAbsolute, join } from "node:path";

/** An entry of a directory, on which it depends where a path leads. */
export interface Step {
  readonly dir: string;
  readonly name: string;
}

const MOST_LINKS = 40;

/** Each link on the way along `path`, and its end; where something is missing, that is the end. */
export function stepsOf(path: string): Step[] {
  const steps: Step[] = [];
  let rest = namesOf(path);
  let dir = "/";
  for (let name = rest.shift(); name !== undefined && steps.length < MOST_LINKS; name = rest.shift()) {
    const target = linkAt(join(dir, name));
    if (target !== "" || rest.length === 0) steps.push({ dir, name });
    if (target === undefined) break;
    if (target === "") dir = join(dir, name);
    else if (isAbsolute(target)) dir = "/";
    rest = [...namesOf(target), ...rest];
  }
  return steps;
}

/** `..` is joined to where the path has led by then, as the kernel does. */
function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Where the link at `path` leads; empty where it is none, undefined where nothing is, or nothing that one may see. */
function linkAt(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : "";
  } catch {
    return undefined;
  }
}
