import { readFileSync, readdirSync } from "node:fs";
import { runInNewContext } from "node:vm";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { EVENT_REASONS } from "../../src/report/events.ts";
import { runLua } from "./lua.ts";

const read = (path: string): string => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), "utf8");
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string; labels?: Record<string, string> };
  readonly spec: JsonObject;
  readonly data: Record<string, string>;
}

const documents = (path: string): Manifest[] =>
  read(path)
    .split(/^---$/m)
    .map((text) => parseYaml(text, path).value as unknown as Manifest);

/** The only object in a file, or the first of this kind. */
function one(path: string, kind?: string): Manifest {
  const found = documents(path).find((each) => kind === undefined || each.kind === kind);
  if (found === undefined) throw new Error(`${path}: no ${kind}`);
  return found;
}

interface Route {
  readonly receiver: string;
  readonly matchers?: readonly string[];
  readonly routes?: readonly Route[];
}
interface Inhibition {
  readonly source_matchers: readonly string[];
  readonly target_matchers: readonly string[];
  readonly equal?: readonly string[];
}
interface Alertmanager {
  readonly route: Route;
  readonly inhibit_rules: readonly Inhibition[];
  readonly receivers: readonly { readonly name: string }[];
}
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
}

type Labels = Readonly<Record<string, string>>;

/** Whether labels match, as Alertmanager says: `=`, `!=` and `=~`, which is anchored. */
function matches(labels: Labels, matchers: readonly string[] = []): boolean {
  return matchers.every((matcher) => {
    const [, name = "", how, value = ""] = /^(\w+)(=~|!=|=)"(.*)"$/.exec(matcher) ?? [];
    const held = labels[name] ?? "";
    if (how === "=~") return new RegExp(`^(?:${value})$`).test(held);
    if (how === undefined) throw new Error(`no matcher: ${matcher}`);
    return (held === value) === (how === "=");
  });
}

/** The receiver of the deepest route that matches first. */
function receiverOf(route: Route, labels: Labels): string {
  const next = route.routes?.find(({ matchers }) => matches(labels, matchers));
  return next === undefined ? route.receiver : receiverOf(next, labels);
}

describe("deploy/prometheus/alertmanager.yaml", () => {
  const [config] = documents("prometheus/alertmanager.yaml") as unknown as [Alertmanager];
  const [{ spec }] = documents("prometheus/alerts.yaml") as unknown as [
    { spec: { groups: readonly { rules: readonly Rule[] }[] } },
  ];
  const rules = spec.groups.flatMap(({ rules: all }) => all);
  const labelsOf = ({ alert, labels }: Rule): Labels => ({ alertname: alert, ...labels });
  const named = (matchers: readonly string[]): string[] =>
    rules.filter((rule) => matches(labelsOf(rule), matchers)).map(({ alert }) => alert);

  it.each(rules)("$alert reaches who has to know", (rule) => {
    const receiver = receiverOf(config.route, labelsOf(rule));
    expect(receiver).toBe(rule.labels.severity === "critical" ? "on-call" : "platform");
    expect(config.receivers.map(({ name }) => name)).toContain(receiver);
  });

  it("alerts of others are none of its matter", () => {
    expect(receiverOf(config.route, { alertname: "NodeDown", severity: "critical" })).toBe("nobody");
  });

  it("what follows from another alert is not told beside it, and critical alerts always are", () => {
    const [away, person] = config.inhibit_rules;
    expect(named(away?.source_matchers ?? [])).toEqual(["AddonOperatorAbsent"]);
    const critical = rules.filter(({ labels }) => labels.severity === "critical").map(({ alert }) => alert);
    expect(named(away?.target_matchers ?? []).filter((alert) => critical.includes(alert))).toEqual([]);
    expect([named(person?.source_matchers ?? []), named(person?.target_matchers ?? [])]).toEqual([
      ["AddonModuleInvalid"],
      ["AddonModuleNotReady"],
    ]);
    // Both are of series of kube-state-metrics, which have these labels.
    expect(person?.equal).toEqual(["namespace", "name"]);
    const pair = rules.filter(({ alert }) => /^AddonModule(Invalid|NotReady)$/.test(alert));
    expect(pair.map(({ expr }) => /addon_module_(state|condition)/.test(expr))).toEqual([true, true]);
  });
});

it("every Event of type Warning has its row in docs/guides/gitops.md, with alerts that there are", () => {
  const page = readFileSync(new URL("../../docs/guides/gitops.md", import.meta.url), "utf8");
  const rows = page.slice(page.indexOf("| Event | Alert |")).split("\n").slice(2);
  const words = (cell = ""): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, word = ""]) => word);
  const cells = rows.filter((row) => row.startsWith("|")).map((row) => row.split("|"));
  const warnings = Object.entries(EVENT_REASONS).filter(([, { type }]) => type === "Warning");
  expect(cells.flatMap(([, events]) => words(events)).toSorted()).toEqual(
    warnings.map(([reason]) => reason).toSorted(),
  );
  const alerts = read("prometheus/alerts.yaml");
  for (const alert of cells.flatMap(([, , cell]) => words(cell)))
    expect(alerts).toContain(`alert: ${alert}\n`);
});

describe("deploy/flux/alert.yaml", () => {
  const nameOf = ({ kind, metadata: { name, namespace } }: Manifest): JsonObject => ({
    kind,
    name,
    namespace,
  });

  it("reports of failures of what the other examples make, by its provider", () => {
    const { eventSources, eventSeverity, providerRef } = one("flux/alert.yaml", "Alert").spec;
    const made = [...documents("flux/kustomization.yaml"), ...documents("flux/helmrelease.yaml")].map(nameOf);
    for (const source of eventSources as JsonObject[]) expect(made).toContainEqual(source);
    expect(eventSeverity).toBe("error");
    expect(providerRef).toEqual({ name: one("flux/alert.yaml", "Provider").metadata.name });
    // The AddonOperator is heard through the health checks of the Kustomization.
    const { healthChecks } = one("flux/kustomization.yaml").spec;
    expect(healthChecks).toContainEqual(expect.objectContaining({ kind: "AddonOperator" }));
  });
});

describe("deploy/argo-cd/argocd-notifications-cm.yaml", () => {
  const { data } = one("argo-cd/argocd-notifications-cm.yaml");
  const part = (name: string): unknown => parseYaml(data[name] ?? "", name).value;
  const triggers = part("trigger.on-addons") as { when: string; send: string[] }[];
  const dir = "argo-cd/resource_customizations/addon-operator.io/AddonOperator";
  const objects = readdirSync(new URL(`../../deploy/${dir}/testdata`, import.meta.url));

  it.each(objects)("sends what the health of %s asks for", (file) => {
    const object = one(`${dir}/testdata/${file}`) as unknown as JsonObject;
    const { status } = runLua(read(`${dir}/health.lua`), object) as { status: string };
    const sent = triggers
      .filter(({ when }) => runInNewContext(when, { app: { status: { health: { status } } } }) as boolean)
      .flatMap(({ send }) => send);
    const requested = { Degraded: ["addons-degraded"], Healthy: ["addons-healthy"] }[status] ?? [];
    expect(sent).toEqual(requested);
  });

  it("its templates are there and send JSON to its service, for Applications that ask for it", () => {
    for (const name of triggers.flatMap(({ send }) => send)) {
      const { webhook } = part(`template.${name}`) as { webhook: Record<string, { body: string }> };
      expect(Object.keys(webhook)).toEqual(["platform"]);
      const body = webhook["platform"]?.body.replaceAll(/\{\{\.app(\.\w+)+\}\}/g, "x") ?? "";
      expect(JSON.parse(body)).toEqual({ text: expect.any(String) });
    }
    const [subscription] = part("subscriptions") as {
      triggers: string[];
      selector: string;
      recipients: string[];
    }[];
    expect(subscription).toMatchObject({ triggers: ["on-addons"], recipients: ["platform"] });
    const [key = "", value] = subscription?.selector.split("=") ?? [];
    expect(one("argo-cd/application.yaml").metadata.labels?.[key]).toBe(value);
  });
});
