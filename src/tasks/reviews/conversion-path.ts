/** Finds the steps by which hooks convert a custom resource from one version to another. */

import type { ConversionBinding, ConversionRule, Hook } from "../../model/index.ts";

/** A rule and the hook that carries it out. */
export interface ConversionStep {
  readonly hook: Hook;
  readonly binding: ConversionBinding;
  readonly rule: ConversionRule;
}

/** Whether two spellings may mean the same version: they are equal, or one of them has no group. */
function mayBeSameVersion(a: string, b: string): boolean {
  if (a.includes("/") && b.includes("/")) return a === b;
  return withoutGroup(a) === withoutGroup(b);
}

/** `stable.example.com/v1` → `v1`. */
function withoutGroup(version: string): string {
  return version.slice(version.indexOf("/") + 1);
}

/**
 * The fewest steps from one apiVersion to another; undefined if there is no way. Rules that spell the version exactly come
 * first, then the order of `steps` counts. Neighbouring steps need only the same version, whatever their groups.
 */
export function conversionPath(
  steps: readonly ConversionStep[],
  from: string,
  to: string,
): ConversionStep[] | undefined {
  const firsts = steps.filter(({ rule }) => mayBeSameVersion(rule.fromVersion, from));
  const isExact = ({ rule }: ConversionStep): boolean => rule.fromVersion === from;
  let paths = [...firsts.filter(isExact), ...firsts.filter((step) => !isExact(step))].map((step) => [step]);
  const seen = new Set<ConversionStep>();
  while (paths.length > 0) {
    const ends = paths.filter((path) => mayBeSameVersion(path.at(-1)?.rule.toVersion ?? "", to));
    const found = ends.find((path) => path.at(-1)?.rule.toVersion === to) ?? ends[0];
    if (found !== undefined) return found;
    for (const path of paths) for (const step of path.slice(-1)) seen.add(step);
    paths = paths.flatMap((path) => {
      const at = withoutGroup(path.at(-1)?.rule.toVersion ?? "");
      const next = steps.filter((step) => !seen.has(step) && withoutGroup(step.rule.fromVersion) === at);
      // Another path of the same length may lead there, too: one is enough.
      for (const step of next) seen.add(step);
      return next.map((step) => [...path, step]);
    });
  }
  return undefined;
}
