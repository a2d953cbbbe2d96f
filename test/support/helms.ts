type HelmName = "helm" | "helm3";

const both: readonly HelmName[] = ["helm", "helm3"];
const chosen = process.env["HELMS"];

/** The helms for tests of what each of them does: both, or the one that HELMS names. */
export const HELMS = both.filter((name) => chosen === undefined || name === chosen);

/**
 * The helm that HELM names, by default helm 4. What is decided before helm starts, or done without it, is tested with this one
 * alone; `npm run test:compat` runs everything with helm 3 as well.
 */
export const isUnderTest = (which: HelmName): boolean => which === (process.env["HELM"] || "helm");
