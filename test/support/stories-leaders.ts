import { LEASE } from "./replicas.ts";
import type { LeaseSpec } from "./replicas.ts";
import { installed } from "./final-state.ts";
import { ACTS } from "./scene-story.ts";
import type { PageState } from "./scene.ts";
import type { OperatorProcess } from "./operator.ts";
import { hasBoth } from "./story.ts";
import type { Cast, Story } from "./story.ts";

type Options = Parameters<PageState["start"]>[0];

/**
 * A replica on the same machine as the others: they see when its process has ended, and do not wait until its lease expires,
 * which therefore need not be one that only an idle machine can keep.
 */
function replica(pageState: PageState, name: string, options: Options = {}): Promise<OperatorProcess> {
  return pageState.start({ ...options, args: ["--ha"], env: { ...options.env, ADDON_OPERATOR_POD: name } });
}

/** A replica whose requests and files do not count. */
const aside = (pageState: PageState, name: string): Promise<OperatorProcess> =>
  replica(pageState, name, { kubeconfig: pageState.cluster.kubeconfig, env: { NODE_OPTIONS: "" } });

async function holder({ cluster, namespace }: PageState): Promise<string> {
  const { spec } = await cluster.json<{ spec: LeaseSpec }>(["get", "lease", LEASE, "-n", namespace]);
  return spec.holderIdentity.split("/")[0] ?? "";
}

/** Resolves to the operator when it leads. */
async function leading(
  pageState: PageState,
  operator: OperatorProcess,
  name: string,
): Promise<OperatorProcess> {
  await operator.until(async () => (await holder(pageState)) === name, `${name} leads`);
  return operator;
}

/** The Lease passes from one of two replicas to the other. */
export const LEADER_STORIES: readonly Story[] = [
  {
    name: "lease-lost",
    cast: async (pageState): Promise<Cast> => {
      const leader = await replica(pageState, "a");
      await installed(pageState, leader);
      const follower = await aside(pageState, "b");
      await follower.waitReady();
      return {
        play: async () => {
          await ACTS.upgrade(pageState);
          return leader;
        },
        replace: () => leading(pageState, follower, "b"),
        endOthers: async (than) => void (than === follower || (await follower.stop())),
      };
    },
    isOver: (state) => hasBoth(state) && state.includes('"size":"2"'),
  },
  {
    name: "lease-passed",
    takesLease: true,
    cast: async (pageState): Promise<Cast> => {
      const leader = await aside(pageState, "a");
      await installed(pageState, leader);
      const follower = await replica(pageState, "b");
      await follower.waitReady();
      return {
        play: async () => {
          await leader.stop();
          await ACTS.upgrade(pageState);
          return follower;
        },
        replace: async () => leading(pageState, await replica(pageState, "b"), "b"),
      };
    },
    look: holder,
    isOver: (state) => state.endsWith('"b"]') && state.includes('"size":"2"'),
  },
];
