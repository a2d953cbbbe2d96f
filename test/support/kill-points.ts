import type { Seen } from "./fault-proxy.ts";
import type { Act } from "./scene-story.ts";
import type { PageState } from "./scene.ts";

/** A step of an operator's work at which it is killed. */
export interface KillPoint {
  readonly name: string;
  readonly act: Act;
  /** Stops whoever comes to the step; resolves to a function that waits until it is reached. */
  readonly stop: (pageState: PageState) => () => Promise<void>;
  /** Revisions that differ from an undisturbed run, as helm had begun one that it could not end. */
  readonly revisions?: Readonly<Record<string, number>>;
  /** Tested at each change, not only in the long run. */
  readonly always?: boolean;
}

const gate =
  (name: string): KillPoint["stop"] =>
  (pageState) =>
    pageState.close(name).reached;

const hold =
  (match: (seen: Seen) => boolean, when: "before" | "after"): KillPoint["stop"] =>
  ({ proxy }) => {
    const arrived = proxy.hold(match, when);
    return () => arrived;
  };

const byHelm =
  (method: RegExp, path: RegExp) =>
  (seen: Seen): boolean =>
    seen.agent.startsWith("Helm") && method.test(seen.method) && path.test(seen.path);

const byOperator =
  (method: RegExp, path: RegExp) =>
  (seen: Seen): boolean =>
    !/^(Helm|kubectl)/.test(seen.agent) && method.test(seen.method) && path.test(seen.path);

const RECORD = /\/secrets(\/sh\.helm\.release\.v1\.app\.v\d+)?$/;
const OBJECT = /\/configmaps(\/app)?$/;

/** Stops helm when it is about to change the object of `app`; the release is pending by then. */
export const midUpgrade = hold(byHelm(/POST|PUT|PATCH/, OBJECT), "before");

/** Stops the operator when it has marked a release of `app` failed that a helm left pending. */
export const markedFailed = hold(byOperator(/PATCH/, RECORD), "after");

const HOOKS: readonly (readonly [Act, string])[] = [
  ["install", "global-onStartup"],
  ["install", "global-sync"],
  ["install", "global-beforeAll"],
  ["install", "app-enabled"],
  ["install", "app-onStartup"],
  ["install", "app-sync"],
  ["install", "app-beforeHelm"],
  ["install", "app-afterHelm"],
  ["install", "global-afterAll"],
  ["upgrade", "app-beforeHelm"],
  ["upgrade", "app-afterHelm"],
  ["delete", "global-beforeAll"],
  ["delete", "app-beforeDeleteHelm"],
  ["delete", "app-afterDeleteHelm"],
  ["delete", "global-afterAll"],
];

const ALWAYS = new Set(["install app-beforeHelm", "delete app-afterDeleteHelm"]);

const inHooks = HOOKS.map(([act, name]): KillPoint => ({
  name: `in ${name}`,
  act,
  stop: gate(name),
  always: ALWAYS.has(`${act} ${name}`),
}));

const twice = { app: 2 };
const thrice = { app: 3 };

const inHelm: readonly KillPoint[] = [
  { name: "before helm", act: "install", stop: gate("before-upgrade app") },
  { name: "before helm's record", act: "install", stop: hold(byHelm(/POST/, RECORD), "before") },
  {
    name: "after helm's record",
    act: "install",
    stop: hold(byHelm(/POST/, RECORD), "after"),
    revisions: twice,
  },
  {
    name: "in the middle of helm",
    act: "install",
    stop: midUpgrade,
    revisions: twice,
    always: true,
  },
  {
    name: "before helm's last word",
    act: "install",
    stop: hold(byHelm(/PUT/, RECORD), "before"),
    revisions: twice,
  },
  { name: "before helm", act: "upgrade", stop: gate("before-upgrade app") },
  {
    name: "in the middle of helm",
    act: "upgrade",
    stop: midUpgrade,
    revisions: thrice,
  },
];

const inDelete: readonly KillPoint[] = [
  { name: "before uninstall", act: "delete", stop: gate("before-uninstall app") },
  {
    name: "in the middle of uninstall",
    act: "delete",
    stop: hold(byHelm(/DELETE/, OBJECT), "before"),
    always: true,
  },
  { name: "before uninstall", act: "purge", stop: gate("before-uninstall app") },
  { name: "in the middle of uninstall", act: "purge", stop: hold(byHelm(/DELETE/, OBJECT), "before") },
];

/**
 * The steps of a module's life at which an operator can die while a hook or helm goes on without it. `each-write.test.ts` has all
 * others: there, helm dies with the operator after any write.
 */
export const KILL_POINTS: readonly KillPoint[] = [...inHooks, ...inHelm, ...inDelete];
