import { expect, test } from "vitest";

import { MissingPermissionsError, SECRETS } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { KindWatches } from "../../src/releases/index.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { kindsOf } from "../support/kinds.ts";
import { manualHub } from "../support/watches.ts";

const LISTENER = {
  onEventsLost: () => {},
  onDeleted: () => {},
  onFindingChanged: () => {},
  onWritten: () => {},
  onEtcdRestored: () => {},
};

/** The watches of a Secret in `namespace`, which is in the record of a release of team-a. */
async function lab(namespace: string) {
  const clock = new ManualClock();
  const { hub, open } = manualHub();
  const access = { isGranted: false, checked: [] as unknown[] };
  const assertPermitted = async (permissions: readonly unknown[]): Promise<void> => {
    access.checked.push(...permissions);
    if (!access.isGranted)
      throw new MissingPermissionsError({ namespace: "team-a", name: "deployer" }, ["get secrets"]);
  };
  const kinds = new KindWatches({
    hub,
    clock,
    logger: silentLogger,
    kinds: kindsOf(clock, () => SECRETS),
    accountLimitsOf: (module) => (module === "red" ? { assertPermitted } : undefined),
  });
  const guard = { module: "red", namespace: "team-a" };
  const object = { apiVersion: "v1", kind: "Secret", name: "pw", namespace, guard };
  kinds.setWatchedObjects(LISTENER, [object]);
  await settle();
  const watched = (): number => open.filter(({ closed }) => !closed).length;
  const message = () => kinds.getFinding(object)?.message;
  return { clock, access, watched, message, kinds, object };
}

test("of objects of other namespaces, the operator reads only what the account of the module may get", async () => {
  const { clock, access, watched, message, kinds, object } = await lab("team-b");
  expect(watched()).toBe(0);
  expect(message()).toContain("ServiceAccount team-a/deployer may not get secrets");
  expect(kinds.findUnseen(object)).toBeUndefined();
  access.isGranted = true;
  await clock.advance(10_000);
  await settle();
  expect([watched(), message()]).toEqual([1, undefined]);
  access.isGranted = false;
  await clock.advance(5 * 60_000);
  await settle();
  expect([watched(), kinds.findUnseen(object)]).toEqual([0, undefined]);
  expect(message()).toContain("may not get secrets");
  expect(access.checked[0]).toEqual({ verb: "get", group: "", resource: "secrets", namespace: "team-b" });
  kinds.close();
});

test("objects in the namespace of the release need no permission of the account", async () => {
  const { access, watched, kinds } = await lab("team-a");
  expect([watched(), access.checked]).toEqual([1, []]);
  kinds.close();
});
