/** Both helms, for tests of what each of them does. */
export const HELMS = ["helm", "helm3"] as const;

/**
 * The helm that HELM names, by default helm 4. What is decided before helm starts, or done without it, is tested with this one
 * alone; `npm run test:compat` runs everything with helm 3 as well.
 */
export const isUnderTest = (which: (typeof HELMS)[number]): boolean =>
  which === (process.env["HELM"] || "helm");
