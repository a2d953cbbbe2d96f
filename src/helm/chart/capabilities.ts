/** What `.Capabilities` shows to charts. */

import { AGGREGATED, readAggregated, serverVersion } from "../../kube/index.ts";
import type { AggregatedList, KubeClient } from "../../kube/index.ts";
import { digest, shareAnswer, type Clock } from "../../lib/index.ts";

const GOOD_MS = 5000;

/** The digest of what `.Capabilities` shows, for whoever asks at about the same time. Throws ApiError or ConnectionError. */
export type Capabilities = () => Promise<string>;

/** The server's version and every kind it serves, as they were at most 5 s ago, and not before `forget`. */
export function capabilitiesOf(
  client: KubeClient,
  clock: Clock,
): { digest: Capabilities; forget: () => void } {
  const shared = (): Capabilities => shareAnswer(clock, GOOD_MS, () => readCapabilities(client));
  let ask = shared();
  return { digest: () => ask(), forget: () => void (ask = shared()) };
}

async function readCapabilities(client: KubeClient): Promise<string> {
  const served = (path: string) => client.json<AggregatedList>({ path, accept: AGGREGATED });
  const [version, ...lists] = await Promise.all([serverVersion(client), served("/api"), served("/apis")]);
  const kinds = lists.flatMap(readAggregated).flatMap(({ group, version: of, resources = [] }) => {
    const at = `${group}/${of}`;
    return [at, ...resources.map(({ kind }) => `${at}/${kind}`)];
  });
  return digest(version, ...kinds.sort());
}
