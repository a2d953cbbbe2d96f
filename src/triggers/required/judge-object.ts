/** Decides whether an object is as a module requires it. */

import type { CelTest } from "../../lib/index.ts";
import { conditionOf } from "../../model/index.ts";
import type { JsonObject, RequiredObject } from "../../model/index.ts";

/** What is wrong with an object, in words that go on after *which*; undefined where nothing is. */
export function judgeObject(
  { condition }: RequiredObject,
  found: JsonObject | undefined,
  test: CelTest | undefined,
): string | undefined {
  if (found === undefined) return "is not there";
  if (condition !== undefined && conditionOf(found, condition, "True") === undefined)
    return `is not ${condition}`;
  const answer = test?.(found);
  if (answer === undefined || answer.isMet) return undefined;
  return answer.why === undefined ? "does not meet its expression" : `has an expression that ${answer.why}`;
}
