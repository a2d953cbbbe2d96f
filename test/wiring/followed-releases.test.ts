import { expect, test } from "vitest";

import type { Releases } from "../../src/helm/index.ts";
import { Scope } from "../../src/lib/index.ts";
import type { Base } from "../../src/wiring/base.ts";
import { FollowedReleases } from "../../src/wiring/followed-releases.ts";
import { EngineLab } from "../support/engine-lab.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";

test("a release that cannot be read keeps its watches, is told of once and read again", async () => {
  const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
  await lab.start();
  const lines: LoggedLine[] = [];
  let answer: () => Promise<unknown> = () => Promise.resolve([object("a")]);
  const base = {
    clock: lab.clock,
    logger: keepLog(lines),
    namespace: "ops",
    hub: { subscribe: () => ({ synced: Promise.resolve(), close: () => {} }) },
    discovery: { resolve: () => Promise.resolve(undefined) },
  } as unknown as Base;
  const releases = {
    store: { onChange: () => {} },
    get: () => undefined,
    objects: () => answer(),
  } as unknown as Releases;
  const scope = new Scope();
  const followed = new FollowedReleases(base, { state: lab.state, metrics: {} as never, releases, scope });
  const look = async (): Promise<readonly string[] | undefined> => {
    followed.look("one");
    await lab.run();
    return followed.healing.objects("one");
  };
  expect(await look()).toEqual(["ops/ConfigMap/a"]);
  answer = () => Promise.reject(new Error("the server is busy"));
  expect(await look()).toEqual(["ops/ConfigMap/a"]);
  expect(await look()).toEqual(["ops/ConfigMap/a"]);
  expect(lines).toEqual([
    [
      "warn",
      "A release cannot be read; the objects known before stay watched",
      { module: "one", error: "the server is busy" },
    ],
  ]);
  answer = () => Promise.resolve([object("a"), object("b")]);
  await lab.run(10_000);
  expect(followed.healing.objects("one")).toEqual(["ops/ConfigMap/a", "ops/ConfigMap/b"]);
  await scope.close();
});

function object(name: string) {
  return { apiVersion: "v1", kind: "ConfigMap", namespace: undefined, name };
}
