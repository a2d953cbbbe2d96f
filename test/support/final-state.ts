import { expect } from "vitest";

import { eventually } from "./cluster.ts";
import { conformance, kstatus } from "./kstatus.ts";
import type { SeenObject } from "./kstatus.ts";
import type { OperatorProcess } from "./operator.ts";
import type { PageState } from "./scene.ts";

/** The state of a namespace at rest, without what differs from one namespace to the next. */
export interface Picture {
  /** Newest revision of each release: its status and which of the labels that count it has. */
  readonly releases: Readonly<Record<string, string>>;
  /** Revisions by release: each would have been one helm run more. */
  readonly revisions: Readonly<Record<string, number>>;
  /** Records that a helm which died, or an operator, has left as they should not stay. */
  readonly unfinished: readonly string[];
  /** ConfigMaps of charts and hooks, with their data. */
  readonly objects: Readonly<Record<string, unknown>>;
  /** Our resources: state, what kstatus makes of them, which rules of it they break. */
  readonly statuses: Readonly<Record<string, string>>;
  readonly config: unknown;
}

interface Seen extends SeenObject {
  readonly kind: string;
  readonly metadata: SeenObject["metadata"] & { readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

const OWN = "apis/addon-operator.io/v1alpha1";
const LISTS = [
  ["api/v1", "configmaps"],
  ["api/v1", "secrets"],
  ["apis/batch/v1", "jobs"],
  [OWN, "addonmodules"],
  [OWN, "addonoperators"],
] as const;

/** A list without a process: scenes are looked at over and over. */
async function check(
  { proxy, namespace }: PageState,
  [version, plural]: (typeof LISTS)[number],
): Promise<Seen[]> {
  const headers = { "user-agent": "kubectl" };
  const answer = await fetch(`${proxy.url}/${version}/namespaces/${namespace}/${plural}`, { headers });
  if (!answer.ok) throw new Error(`${plural}: ${answer.status}`);
  const { kind, items } = (await answer.json()) as { kind: string; items: Omit<Seen, "kind">[] };
  return items.map((each) => ({ ...each, kind: kind.replace(/List$/, "") }));
}

/** Looks at everything that a scene's operators have made. */
export async function pictureOf(pageState: PageState): Promise<Picture> {
  const items = (await Promise.all(LISTS.map((list) => check(pageState, list)))).flat();
  const of = (...wanted: readonly string[]) => items.filter(({ kind }) => wanted.includes(kind));
  const records = of("Secret")
    .filter(({ metadata: { labels } }) => labels?.["owner"] === "helm")
    .toSorted((a, b) => revision(a) - revision(b));
  const name = (each: Seen): string => each.metadata.labels?.["name"] ?? "";
  const maps = of("ConfigMap").filter(({ metadata }) => metadata.name !== "kube-root-ca.crt");
  return {
    releases: Object.fromEntries(records.map((each) => [name(each), describeRecord(each)])),
    revisions: Object.fromEntries(records.map((each) => [name(each), revision(each)])),
    unfinished: records
      .map(statusOf)
      .filter((status) => !["deployed", "superseded", "failed"].includes(status)),
    objects: Object.fromEntries(
      [...maps, ...of("Job")]
        .filter(({ metadata }) => metadata.name !== "addon-operator")
        .map(({ kind, metadata, data }) => [`${kind} ${metadata.name}`, data ?? {}]),
    ),
    statuses: Object.fromEntries(
      of("AddonModule", "AddonOperator").map((each) => [
        `${each.kind} ${each.metadata.name}`,
        [each.status?.state ?? "", kstatus(each), ...conformance(each)].join(" ").trim(),
      ]),
    ),
    config: maps.find(({ metadata }) => metadata.name === "addon-operator")?.data ?? {},
  };
}

function revision({ metadata: { labels } }: Seen): number {
  return Number(labels?.["version"]);
}

const statusOf = ({ metadata: { labels } }: Seen): string => labels?.["status"] ?? "";

function describeRecord({ metadata: { labels = {} } }: Seen): string {
  // The third, of the manifest, only saves a later rendering: who dies before it is written owes nothing.
  const ours = ["inputs", "managed-by"].filter((name) => `addon-operator.io/${name}` in labels);
  return [labels["status"], ...ours].join(" ");
}

/** Resolves when the operator has nothing left to do. */
export async function atRest(operator: OperatorProcess): Promise<void> {
  await operator.waitReady();
  await operator.until(async () => {
    const converge = await operator.http("/status/converge?output=json");
    expect(JSON.parse(converge.body)).toMatchObject({ CONVERGE_WAIT_TASK: true });
    const queue = await operator.http("/queue?output=json");
    expect(JSON.parse(queue.body)).toMatchObject({ summary: { totalTasks: 0 } });
  }, "the operator is at rest");
}

const INSTALLED = ["AddonModule app", "AddonModule base", "AddonOperator addon-operator"];

/** Resolves when the first converge has ended, and the statuses say so: their writes belong to nothing later. */
export async function installed(pageState: PageState, operator: OperatorProcess): Promise<void> {
  await atRest(operator);
  const areReady = async (): Promise<boolean> => {
    const { statuses } = await pictureOf(pageState);
    return INSTALLED.every((name) => statuses[name] === "Ready Current");
  };
  await operator.until(areReady, "the statuses of the first converge", { intervalMs: 200 });
}

/** The state is, or soon becomes, the one expected. */
export async function expectPicture(
  pageState: PageState,
  operator: OperatorProcess,
  expected: Picture,
): Promise<void> {
  await atRest(operator);
  await eventually(
    async () => {
      expect(await pictureOf(pageState)).toEqual(expected);
    },
    "the state of an undisturbed run",
    { intervalMs: 200, context: () => operator.log().slice(-6000) },
  );
}

/** After the end: the operator stops in good order, and nothing of it or its predecessors is left. A failure has the end of its log. */
export async function expectNothingLeft(pageState: PageState, operator: OperatorProcess): Promise<void> {
  await checkNothingLeft(pageState, operator).catch((error: unknown) => {
    throw new Error(`${String(error)}\n${operator.log().slice(-6000)}`, { cause: error });
  });
}

async function checkNothingLeft(pageState: PageState, operator: OperatorProcess): Promise<void> {
  // The private kubeconfigs of the operator last as long as it does.
  const atRest = (): string[] =>
    pageState.scratch().filter((name) => !name.startsWith(`kube.${operator.pid}-`));
  await eventually(() => expect(atRest()).toEqual([]), "no temp files at rest");
  expect(pageState.processes([operator.pid])).toEqual([]);
  expect(await operator.stop()).toEqual({ code: 0, signal: null });
  const lease = ["get", "lease", "addon-operator-addon-operator", "-n", pageState.namespace];
  expect(await pageState.cluster.json(lease)).toMatchObject({ spec: { holderIdentity: "" } });
  expect(pageState.processes()).toEqual([]);
  expect(pageState.scratch()).toEqual([]);
}
