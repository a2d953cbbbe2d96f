import { onTestFinished } from "vitest";

import { eventually } from "./cluster.ts";
import type { FalseAnswer, Seen } from "./fault-proxy.ts";
import { atRest, pictureOf } from "./final-state.ts";
import type { OperatorProcess } from "./operator.ts";
import { converge, base } from "./scene-addons.ts";
import { ACTS, prepare } from "./scene-story.ts";
import type { PageState } from "./scene.ts";

/** Something that people do with an operator, whose requests are counted so that each of them can be disturbed. */
export interface Story {
  readonly name: string;
  readonly args?: readonly string[];
  /** Adds files to the scene before the first start. */
  readonly furnish?: (pageState: PageState) => Promise<void> | void;
  /** What is done after the first converge. Without it, the first converge is the story. */
  readonly act?: (pageState: PageState) => Promise<void>;
  /** Objects that the picture of the namespace does not contain. */
  readonly look?: (pageState: PageState) => Promise<unknown>;
}

const CRD_GROUP = (pageState: PageState): string => `${pageState.namespace}.example.com`;

function writeCrd(pageState: PageState, field: string): void {
  const group = CRD_GROUP(pageState);
  const schema = { type: "object", properties: { [field]: { type: "string" } } };
  const crd = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `things.${group}` },
    spec: {
      group,
      names: { kind: "Thing", plural: "things", singular: "thing" },
      scope: "Namespaced",
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
  pageState.file("modules/030-base/crds/things.yaml", JSON.stringify(crd));
}

/** The names of the ConfigMaps and releases in the namespace to which a story moves a release. */
async function lookAtMoved({ cluster, namespace }: PageState): Promise<unknown> {
  const names = async (kind: string, selector: string): Promise<string> =>
    cluster.kubectl(["get", kind, "-n", `${namespace}-moved`, "-l", selector, "-o", "name"]);
  return [
    await names("configmaps", "app.kubernetes.io/managed-by=Helm"),
    await names("secrets", "owner=helm"),
  ];
}

/** In the order of a module's life. Each leaves a state that does not depend on the order of independent writes. */
export const STORIES: readonly Story[] = [
  { name: "install" },
  { name: "upgrade", act: ACTS.upgrade },
  { name: "delete", act: ACTS.delete },
  { name: "purge", act: ACTS.purge },
  {
    name: "rollback",
    args: ["--on-failure=rollback"],
    furnish: (pageState) => {
      base(pageState);
      const name = '{{ .Values.base.other | default "other" }}';
      pageState.file(
        "modules/030-base/templates/other.yaml",
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`,
      );
    },
    act: (pageState) => pageState.configure({ base: "size: 5\nother: IN.VALID_NAME\n" }),
  },
  {
    name: "crd",
    furnish: (pageState) => writeCrd(pageState, "before"),
    act: async (pageState) => {
      writeCrd(pageState, "after");
      await converge(pageState);
    },
    look: async (pageState) => {
      const name = `things.${CRD_GROUP(pageState)}`;
      const crd = await pageState.cluster.json<{ spec: { versions: { schema: unknown }[] } }>([
        "get",
        "crd",
        name,
      ]);
      return crd.spec.versions.map(({ schema }) => schema);
    },
  },
  {
    name: "move",
    act: async (pageState) => {
      pageState.file("modules/030-base/addon.yaml", `namespace: ${pageState.namespace}-moved\n`);
      await converge(pageState);
    },
    look: lookAtMoved,
  },
];

/** Writes that belong to no act: those of tests, of leases that are renewed, of Events and of questions about rights. */
const isCounted = ({ method, path, agent, watch }: Seen): boolean =>
  !agent.startsWith("kubectl") &&
  !watch &&
  method !== "OPTIONS" &&
  !/\/(leases|events)\b|accessreviews$/.test(path);

const isWrite = (seen: Seen): boolean => isCounted(seen) && seen.method !== "GET";
const isRequest = (seen: Seen): boolean => isCounted(seen);

/** The state at rest, without what two undisturbed runs do not share. */
async function stateOf(story: Story, pageState: PageState): Promise<unknown> {
  const { revisions: _, ...picture } = await pictureOf(pageState);
  const text = JSON.stringify([picture, (await story.look?.(pageState)) ?? null]);
  return JSON.parse(text.replaceAll(pageState.namespace, "NAMESPACE")) as unknown;
}

/** What an undisturbed run of a story does and leaves. */
export interface Undisturbed {
  readonly writes: number;
  readonly requests: number;
  readonly state: string;
}

const POLLS_AT_REST = 4;

/** Plays a story without disturbance, waits until its state stays the same, and counts its requests. */
export async function playUndisturbed(story: Story): Promise<Undisturbed> {
  const stage = await openStage(story);
  const begin = stage.pageState.proxy.seen.length;
  const operator = await stage.play();
  await atRest(operator);
  let last = "";
  let same = 0;
  await eventually(
    async () => {
      const state = JSON.stringify(await stateOf(story, stage.pageState));
      same = state === last ? same + 1 : 0;
      last = state;
      return same >= POLLS_AT_REST;
    },
    `${story.name}: the state stays the same`,
    { intervalMs: 250 },
  );
  const seen = stage.pageState.proxy.seen.slice(begin);
  return { writes: seen.filter(isWrite).length, requests: seen.filter(isRequest).length, state: last };
}

interface Stage {
  readonly story: Story;
  readonly pageState: PageState;
  /** Starts an operator, or does what the story does; resolves to the operator. */
  readonly play: () => Promise<OperatorProcess>;
  readonly restart: () => Promise<OperatorProcess>;
}

/** Everything before the story: for all but `install`, a first converge. */
async function openStage(story: Story): Promise<Stage> {
  const pageState = await prepare("each");
  await story.furnish?.(pageState);
  const restart = (): Promise<OperatorProcess> => pageState.start({ args: [...(story.args ?? [])] });
  if (story.act === undefined) return { story, pageState, play: restart, restart };
  const operator = await restart();
  await atRest(operator);
  const play = async (): Promise<OperatorProcess> => {
    await story.act?.(pageState);
    return operator;
  };
  return { story, pageState, play, restart };
}

/** Matches the request number `n` of those that `counts` accepts, counted from 1. */
function nth(n: number, counts: (seen: Seen) => boolean): (seen: Seen) => boolean {
  let count = 0;
  return (seen) => counts(seen) && ++count === n;
}

async function expectState(
  { story, pageState }: Stage,
  { state }: Undisturbed,
  operator: OperatorProcess,
): Promise<void> {
  await atRest(operator);
  await eventually(
    async () => {
      const found = JSON.stringify(await stateOf(story, pageState));
      if (found !== state) throw new Error(`expected ${state}\nfound    ${found}`);
    },
    "the state of an undisturbed run",
    { intervalMs: 200, context: () => operator.log().slice(-4000) },
  );
}

/**
 * Plays a story, kills the operator and its helm after the API server has done write `n` and before the answer arrives,
 * starts another operator, and compares the state. Resolves to the write, or undefined if there was none.
 */
export async function crashAfterWrite(
  story: Story,
  n: number,
  truth: Undisturbed,
): Promise<string | undefined> {
  const stage = await openStage(story);
  const { proxy } = stage.pageState;
  let write: string | undefined;
  const match = nth(n, isWrite);
  const held = proxy.hold((seen) => {
    if (!match(seen)) return false;
    write = `${seen.method} ${seen.path}`;
    return true;
  }, "after");
  const first = await stage.play();
  await Promise.race([held, atRest(first)]);
  await first.kill9();
  stage.pageState.killHelm();
  const second = await stage.restart();
  onTestFinished(() => void second.kill9());
  await expectState(stage, truth, second);
  await second.kill9();
  return write;
}

/** Plays a story in which request `n` gets a false answer, and compares the state. Resolves to the request. */
export async function answerFalsely(
  story: Story,
  { n, answer }: { n: number; answer: FalseAnswer },
  truth: Undisturbed,
): Promise<string | undefined> {
  const stage = await openStage(story);
  let request: string | undefined;
  const match = nth(n, isRequest);
  stage.pageState.proxy.answer(
    (seen) => {
      if (!match(seen)) return false;
      request = `${seen.method} ${seen.path}`;
      return true;
    },
    answer,
    1,
  );
  const operator = await stage.play();
  await expectState(stage, truth, operator);
  await operator.kill9();
  return request;
}
