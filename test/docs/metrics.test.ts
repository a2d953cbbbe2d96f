import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

import { parseMetrics } from "../../src/hooks/index.ts";
import { getHookActivation } from "../../src/hooks/bindings/index.ts";
import type { HookTrigger } from "../../src/base/model/index.ts";
import { event, hookWith, lifecycle, sync, tick } from "../hooks/build.ts";
import { SERIES } from "../../src/report/metrics/index.ts";
import { ACTIVATION_BY_CAUSE, ACTIVATION_BY_HOOK } from "../../src/report/metrics/activation.ts";

const page = new URL("../../docs/reference/metrics.md", import.meta.url);
test("docs/reference/metrics.md lists every activation of modules and reloads", async () => {
  const text = await readFile(page, "utf8");
  const [, reported = ""] = /^The label `activation` .*? one of these values: (.*?)\. /m.exec(text) ?? [];
  const known = [ACTIVATION_BY_CAUSE, ACTIVATION_BY_HOOK].flatMap((labels) => Object.values(labels).flat());
  expect(new Set(reported.replaceAll("`", "").split(", "))).toEqual(new Set<string | undefined>(known));
});

test("every operation that docs/reference/metrics.md prints is understood", async () => {
  const text = await readFile(page, "utf8");
  const fenced = [...text.matchAll(/^```json\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  const inline = [...text.matchAll(/`(\{"action[^`]*)`/g)].map(([, code = ""]) => code);
  expect([fenced.length, inline.length]).toEqual([1, 2]);
  const named = (code: string) => code.replace("…", "backups_total");
  expect([...fenced, ...inline].flatMap((code) => parseMetrics(named(code)))).toHaveLength(7);
});

/** The words of a type that is a choice of words. */
async function choices(file: string, type: string): Promise<string[]> {
  const source = await readFile(new URL(`../../src/${file}`, import.meta.url), "utf8");
  const [, words = ""] = new RegExp(`type ${type} = (.+);`).exec(source) ?? [];
  return [...words.matchAll(/"([\w-]+)"/g)].map(([, word = ""]) => word);
}

test("every operation of helm and every action on a queue is listed in docs/reference/metrics.md", async () => {
  const text = await readFile(page, "utf8");
  const reported = (label: string): string[] => {
    const [, sentence = ""] = new RegExp(`\`${label}\` is (.*?)(?:\\.|; runs)`, "s").exec(text) ?? [];
    return [...sentence.matchAll(/`([\w-]+)`/g)].map(([, word = ""]) => word);
  };
  expect(reported("operation").toSorted()).toEqual(
    (await choices("helm/binary/helm.ts", "HelmOperation")).toSorted(),
  );
  expect(reported("queue_action").toSorted()).toEqual(
    (await choices("engine/queue/types.ts", "QueueAction")).toSorted(),
  );
});

test("the activation of a hook is Schedule, Kubernetes or its lifecycle binding", () => {
  const hook = hookWith('configVersion: v1\nschedule: [{crontab: "* * * * *"}]\nkubernetes: [{kind: Pod}]');
  const [binding] = hook.config.bindings.kubernetes;
  const [line] = hook.config.bindings.schedule;
  const triggers: HookTrigger[] = [
    ...(line === undefined ? [] : [tick(line)]),
    ...(binding === undefined ? [] : [event(binding), sync(binding)]),
    lifecycle("afterAll"),
  ];
  expect(triggers.map(({ binding: each }) => getHookActivation(each))).toEqual([
    "Schedule",
    "Kubernetes",
    "Kubernetes",
    "afterAll",
  ]);
});

test("durations are in seconds", () => {
  const durations = Object.values(SERIES).filter(({ help }) => /^(Duration|Time|CPU time)/.test(help));
  expect(durations.length).toBeGreaterThan(10);
  expect(durations.map(({ name }) => name).filter((name) => !/_seconds(_total)?$/.test(name))).toEqual([]);
});
