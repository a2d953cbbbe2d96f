import { expect, test } from "vitest";

import type { Tree } from "../../../src/base/model/index.ts";
import { KnownSecrets } from "../../../src/base/index.ts";
import { NO_TREE } from "../../../src/engine/state/view.ts";
import { State } from "../../../src/engine/state/index.ts";
import { Projector } from "../../../src/report/project/projector.ts";
import { parseConfigMap } from "../../../src/values/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { T0, moduleView, queueOf, viewOf } from "../views.ts";

const WEB = {
  name: "web",
  valuesKey: "web",
  common: { file: "values.yaml", section: undefined, enabled: undefined },
  own: { file: "web/values.yaml", section: { a: 1 }, enabled: true },
  schemas: {},
  crdFiles: [],
};

test("the next try of a failed run is shown as soon as its queue knows it, and not while it is tried", () => {
  const web = moduleView("web", { retry: { reason: "HelmFailed", message: "no", failures: 1, since: 0 } });
  const view = viewOf([web]);
  const projector = new Projector("none", new KnownSecrets());
  const displayed = (nextAt: number | undefined): string | undefined => {
    const [queue] = queueOf("web");
    const tasks = queue?.tasks.map((task) => ({ ...task, nextAt })) ?? [];
    const queues = [{ name: "main", length: 1, tasks }];
    return projector.project({ view, queues }, T0).modules.get("web")?.status.nextRetryAt;
  };
  expect([displayed(undefined), displayed(T0 + 7000), displayed(undefined)]).toEqual([
    undefined,
    "2026-01-01T00:00:07Z",
    undefined,
  ]);
});

test("a module's status shows the global values of now, and its digest is that of the whole", () => {
  const state = new State({ clock: new ManualClock(0) });
  state.recordTree({ ...NO_TREE, modules: [WEB], globalValues: { zone: "eu" } } as unknown as Tree);
  const take = (data: Record<string, string>): unknown =>
    state.inputs.recordConfig(
      {
        condition: "ok",
        problems: [],
        resourceVersion: "1",
        content: parseConfigMap("cm", data, state.values.modules()),
      },
      { kind: "config" },
    );
  const projector = new Projector("full", new KnownSecrets());
  const displayed = () => {
    const status = projector.project({ view: state.view, queues: [] }, 0).modules.get("web")?.status;
    return { values: status?.values, digest: status?.valuesDigest };
  };
  take({});
  const first = displayed();
  expect(first.values).toEqual({ global: { zone: "eu" }, web: { a: 1 } });
  take({ global: "zone: us" });
  const second = displayed();
  expect(second.values).toEqual({ global: { zone: "us" }, web: { a: 1 } });
  expect(second.digest).not.toBe(first.digest);
  state.inputs.recordPatches("global", [{ op: "add", path: "/global/found", value: 1 }]);
  expect(displayed().values).toEqual({ global: { zone: "us", found: 1 }, web: { a: 1 } });
  take({ global: "zone: us", web: "a: 1" });
  expect(displayed().digest).not.toBe(second.digest);
});
