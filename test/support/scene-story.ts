import type { Picture } from "./final-state.ts";
import { addons, converge, seed } from "./scene-addons.ts";
import { openScene } from "./scene.ts";
import type { PageState } from "./scene.ts";

/** What people do with the addons of a scene, one after the other. */
export type Act = "install" | "upgrade" | "delete" | "purge";

/** A scene with everything ready for a first start. */
export async function prepare(prefix: string, own?: Parameters<typeof openScene>[1]): Promise<PageState> {
  const pageState = await openScene(prefix, own);
  addons(pageState);
  await seed(pageState);
  return pageState;
}

export const ACTS: Readonly<Record<Exclude<Act, "install">, (pageState: PageState) => Promise<void>>> = {
  upgrade: (pageState) => pageState.configure({ app: "size: 2\nkept: 'yes'\n" }),
  delete: (pageState) => pageState.configure({ appEnabled: "false" }),
  purge: async (pageState) => {
    pageState.remove("modules/020-app");
    await converge(pageState);
  },
};

const RELEASE = "deployed inputs managed-by";
const READY = "Ready Current";

const appData = (size: string): object => ({
  size,
  kept: "yes",
  planned: "yes",
  prepared: "yes",
  seeded: "yes",
  seen: "yes",
  started: "yes",
  zone: "a",
});

const INSTALLED: Picture = {
  releases: { app: RELEASE, base: RELEASE },
  revisions: { app: 1, base: 1 },
  unfinished: [],
  objects: {
    "ConfigMap all-done": {},
    "ConfigMap app": appData("1"),
    "ConfigMap app-prepared": {},
    "ConfigMap app-told": {},
    "ConfigMap base": { size: "1" },
    "ConfigMap seed": {},
  },
  statuses: {
    "AddonModule app": READY,
    "AddonModule base": READY,
    "AddonOperator addon-operator": READY,
  },
  config: { app: "kept: 'yes'\n" },
};

const { "ConfigMap app": _app, "ConfigMap app-told": _told, ...others } = INSTALLED.objects;
const { "AddonModule app": _module, ...otherStatuses } = INSTALLED.statuses;
const NOT_FOUND = { releases: { base: RELEASE }, revisions: { base: 1 } };

/** What an undisturbed operator leaves after each act on what `install` left; the truth for all disturbed ones. */
export const PICTURES: Readonly<Record<Act, Picture>> = {
  install: INSTALLED,
  upgrade: {
    ...INSTALLED,
    revisions: { app: 2, base: 1 },
    objects: { ...INSTALLED.objects, "ConfigMap app": appData("2") },
    config: { app: "size: 2\nkept: 'yes'\n" },
  },
  delete: {
    ...INSTALLED,
    ...NOT_FOUND,
    objects: { ...others, "ConfigMap app-leaving": {} },
    statuses: { ...INSTALLED.statuses, "AddonModule app": "Disabled Current" },
    config: { ...(INSTALLED.config as object), appEnabled: "false" },
  },
  // A purge knows no hooks: what they made stays.
  purge: {
    ...INSTALLED,
    ...NOT_FOUND,
    objects: { ...others, "ConfigMap app-told": {} },
    statuses: otherStatuses,
  },
};
