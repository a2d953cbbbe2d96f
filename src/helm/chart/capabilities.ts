/** What `.Capabilities` shows to charts. */

import type { KubeClient } from "../../kube/index.ts";
import { digest, shareAnswer, type Clock } from "../../lib/index.ts";
import { objectOf, objectsIn, textOf, type Json, type JsonObject } from "../../model/index.ts";

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
const GOOD_MS = 5000;

/** The digest of what `.Capabilities` shows, for whoever asks at about the same time. Throws ApiError or ConnectionError. */
export type Capabilities = () => Promise<string>;

/** The server's version and every kind it serves, as they were at most 5 s ago. */
export function capabilitiesOf(client: KubeClient, clock: Clock): Capabilities {
  return shareAnswer(clock, GOOD_MS, async () => {
    const [version, core, groups] = await Promise.all([
      client.json<JsonObject>({ path: "/version" }),
      client.json<JsonObject>({ path: "/api", accept: AGGREGATED }),
      client.json<JsonObject>({ path: "/apis", accept: AGGREGATED }),
    ]);
    const kinds = [core, groups].flatMap(kindsOf).sort();
    return digest(text(version["gitVersion"]), ...kinds);
  });
}

/** `group/version/Kind` of aggregated discovery; group and version alone from servers without it. */
function kindsOf(discovery: JsonObject): string[] {
  const groups = [...objectsIn(discovery["items"]), ...objectsIn(discovery["groups"])];
  return groups.flatMap((group) => {
    const name = text(group["name"] ?? objectOf(group["metadata"])["name"]);
    return objectsIn(group["versions"]).flatMap((version) => {
      const at = `${name}/${text(version["version"])}`;
      const kinds = objectsIn(version["resources"]).map((each) => objectOf(each["responseKind"])["kind"]);
      return [at, ...kinds.map((kind) => `${at}/${text(kind)}`)];
    });
  });
}

function text(value: Json | undefined): string {
  return textOf(value) ?? "";
}
