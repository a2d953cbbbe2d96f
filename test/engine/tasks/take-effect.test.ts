import { expect, test } from "vitest";

import { EngineLab } from "../../support/engine-lab.ts";

// docs/reference/hooks.md, "Order of effects".

const add = (path: string) => ({ op: "add", path, value: 1 });

/** What of a run has taken effect, each step noted as it sees the ones before; `fails` is where it goes wrong. */
async function effects(fails?: "objects" | "metrics" | "ConfigMap" | "patch"): Promise<string[]> {
  const seen: string[] = [];
  const check = (step: string) => (): void => {
    const saved = lab.data["web"] === undefined ? "" : ", saved";
    const known = lab.state.values.patches("web").length === 0 ? "" : ", known";
    seen.push(`${step}${saved}${known}`);
    if (fails === step) throw new Error(`no ${step}`);
  };
  const lab: EngineLab = new EngineLab({
    config: { webEnabled: "true" },
    modules: [
      {
        name: "web",
        hooks: [
          {
            name: "h",
            schedules: [{}],
            act: () => ({
              objects: check("objects"),
              metrics: check("metrics"),
              config: add("/web/saved"),
              values: fails === "patch" ? { op: "remove", path: "/web/nothing" } : add("/web/known"),
            }),
          },
        ],
      },
    ],
  });
  await lab.start();
  lab.writeFails = () => {
    check("ConfigMap")();
    return false;
  };
  lab.tick("web/h");
  await lab.run();
  check("end")();
  seen.push(lab.queues.views()[0]?.tasks[0]?.message === undefined ? "succeeded" : "failed");
  return seen;
}

test("object patches come first, then metrics, the ConfigMap, and the values in memory", async () => {
  expect(await effects()).toEqual(["objects", "metrics", "ConfigMap", "end, saved, known", "succeeded"]);
});

test("an error on the way fails the run, and nothing after it takes effect", async () => {
  expect(await effects("patch")).toEqual(["end", "failed"]);
  expect(await effects("objects")).toEqual(["objects", "end", "failed"]);
  expect(await effects("metrics")).toEqual(["objects", "metrics", "end", "failed"]);
  expect(await effects("ConfigMap")).toEqual(["objects", "metrics", "ConfigMap", "end", "failed"]);
});
