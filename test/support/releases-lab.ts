import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach } from "vitest";

import { Releases } from "../../src/helm/index.ts";
import type { ReleaseOutcome, ReleasesOptions } from "../../src/helm/index.ts";
import type { ReconcileRequest } from "../../src/helm/types.ts";
import { connect, Discovery, WatchHub } from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import type { Logger } from "../../src/base/index.ts";
import type { ChartKind, HelmOverrides } from "../../src/base/model/index.ts";
import { cluster, deleteNamespace, makeNamespace } from "./cluster.ts";
import { releasesOptions } from "./releases-options.ts";

/** A namespace and a directory of a test, and its connection to the cluster. */
export interface ClusterLab {
  readonly namespace: string;
  readonly root: string;
  readonly client: KubeClient;
  readonly hub: WatchHub;
}

interface Lab extends ClusterLab {
  readonly discovery: Discovery;
}

/** Makes a lab whose namespace and directory begin with `name`. */
export async function openClusterLab(name: string): Promise<ClusterLab> {
  const namespace = await makeNamespace(name);
  const root = await mkdtemp(join(tmpdir(), `${name}-test-`));
  const logger = silentLogger;
  const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger });
  return { namespace, root, client, hub: new WatchHub({ client, clock: systemClock, logger }) };
}

/** Closes the connection, and removes namespace and directory. */
export async function closeClusterLab({ namespace, root, client, hub }: ClusterLab): Promise<void> {
  hub.close();
  await client.close();
  await deleteNamespace(namespace);
  await rm(root, { recursive: true, force: true });
}

/** What the current test has: a namespace, a directory, and the releases of an operator. */
export let lab: Lab;
export let releases: Releases;
let helmUnderTest: string;
/** How many helm processes have ended. */
export let helmRuns = 0;
const counting: Logger = {
  ...silentLogger,
  debug: (message) => void (helmRuns += message === "Ran helm" ? 1 : 0),
};

/** Gives each test of a `describe` a lab with that helm. */
export function useLab(bin: string): void {
  beforeEach(async () => {
    helmUnderTest = bin;
    const opened = await openClusterLab("helm");
    lab = { ...opened, discovery: new Discovery(opened.client) };
    await openReleases();
  });

  afterEach(async () => {
    releases.close();
    await closeClusterLab(lab);
  });
}

/** Another operator begins beside the one before, whose releases the caller closes. */
export async function openReleases(change: Partial<ReleasesOptions> = {}): Promise<void> {
  const { discovery } = lab;
  releases = new Releases(releasesOptions(lab, helmUnderTest, { discovery, logger: counting, ...change }));
  await releases.observed.waitUntilReady();
}

/** What a restart of the operator is to this room. */
export async function restart(change: Partial<ReleasesOptions> = {}): Promise<void> {
  releases.close();
  await openReleases(change);
}

/** Writes a file below the directory of the test. */
export async function put(rel: string, text: string): Promise<void> {
  const path = join(lab.root, rel);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

export const CONFIG_MAP = `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {a: "{{ .Values.m.a }}", g: "{{ .Values.global.used }}"}
`;

/** Writes the chart of the module `m`. */
export async function putChart(template = CONFIG_MAP): Promise<void> {
  await put("m/Chart.yaml", "apiVersion: v2\nname: m\nversion: 1.0.0\n");
  await put("m/templates/cm.yaml", template);
}

export interface Change {
  readonly missingObjects?: readonly string[];
  readonly chart?: ChartKind;
  readonly helm?: HelmOverrides;
  readonly onWait?: ReconcileRequest["onWait"];
}

export function requestOf(values: object, change: Change = {}): ReconcileRequest {
  const { chart = "own", helm } = change;
  return {
    module: { name: "m", valuesKey: "m", chartDir: join(lab.root, "m"), chart, helm, retries: 1 },
    values: JSON.stringify({ global: {}, m: {}, ...values }),
    missingObjects: change.missingObjects ?? [],
    ...(change.onWait && { onWait: change.onWait }),
    signal: AbortSignal.timeout(50_000),
  };
}

/** Runs the module `m`, and waits until its labels are written. */
export async function reconcile(values: object, change: Change = {}): Promise<ReleaseOutcome> {
  const outcome = await releases.reconcile(requestOf(values, change));
  await releases.flushLabels();
  return { ...outcome, release: releases.observed.get("m") };
}

/** kubectl in the namespace of the test. */
export function kubectl(...args: string[]): Promise<string> {
  return cluster().kubectl([...args, "-n", lab.namespace]);
}

/** The data of the ConfigMap of the chart, as JSON. */
export const data = (): Promise<string> => kubectl("get", "cm", "m", "-o", "jsonpath={.data}");

/** Runs helm as a person would. */
export async function runHelm(args: readonly string[]): Promise<void> {
  const connection = ["-n", lab.namespace, "--kubeconfig", cluster().kubeconfig];
  await promisify(execFile)(helmUnderTest, [...args, ...connection]);
}

/** A report, and what was reported to it. */
export function listen() {
  const adopted: string[] = [];
  const forgotten: string[] = [];
  const report = {
    adopted: (name: string) => void adopted.push(name),
    tookOver: () => {},
    forgotKinds: (_: string, names: readonly string[]) => void forgotten.push(...names),
    ran: () => {},
    reconciled: () => {},
    leftoversChanged: () => {},
    ownWatchChanged: () => {},
  };
  return { adopted, forgotten, report };
}
