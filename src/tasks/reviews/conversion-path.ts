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
 * Finds the fewest steps from one apiVersion to another (breadth-first search); undefined if there is no way. Rules that spell the
 * version exactly come first, then the order of `steps` counts. Neighbouring steps need only the same version, whatever their groups.
 */
export function conversionPath(
  steps: readonly ConversionStep[],
  from: string,
  to: string,
): ConversionStep[] | undefined {
  const firstSteps = steps.filter(({ rule }) => mayBeSameVersion(rule.fromVersion, from));
  const isExact = ({ rule }: ConversionStep): boolean => rule.fromVersion === from;
  const ordered = [...firstSteps.filter(isExact), ...firstSteps.filter((step) => !isExact(step))];
  // All paths have the same length, and `version` is where each leads.
  let paths = ordered.map((step) => ({ path: [step], version: step.rule.toVersion }));
  const seen = new Set(firstSteps);
  while (paths.length > 0) {
    const complete = paths.filter(({ version }) => mayBeSameVersion(version, to));
    const found = complete.find(({ version }) => version === to) ?? complete[0];
    if (found !== undefined) return found.path;
    paths = paths.flatMap(({ path, version }) => {
      const bareVersion = withoutGroup(version);
      const next = steps.filter(
        (step) => !seen.has(step) && withoutGroup(step.rule.fromVersion) === bareVersion,
      );
      // Another path of the same length may lead there, too: one is enough.
      for (const step of next) seen.add(step);
      return next.map((step) => ({ path: [...path, step], version: step.rule.toVersion }));
    });
  }
  return undefined;
}
