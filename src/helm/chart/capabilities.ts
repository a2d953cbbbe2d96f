/** What `.Capabilities` shows to charts. */

import type { KubeClient } from "../../kube/index.ts";
import type { Clock } from "../../lib/index.ts";
import { digest } from "../../lib/index.ts";
import { objectOf, objectsIn, textOf } from "../../model/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
const KEEP_MS = 5000;

/** What `.Capabilities` shows: a digest of the server's version and of every kind it serves, at most 5 s old. */
export class Capabilities {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  #known: { readonly at: number; readonly value: Promise<string> } | undefined;

  constructor(client: KubeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Throws ApiError or ConnectionError. */
  digest(): Promise<string> {
    const now = this.#clock.monotonic();
    if (this.#known !== undefined && now - this.#known.at < KEEP_MS) return this.#known.value;
    const value = this.#ask();
    this.#known = { at: now, value };
    value.catch(() => (this.#known = undefined));
    return value;
  }

  async #ask(): Promise<string> {
    const [version, core, groups] = await Promise.all([
      this.#client.json<JsonObject>({ path: "/version" }),
      this.#client.json<JsonObject>({ path: "/api", accept: AGGREGATED }),
      this.#client.json<JsonObject>({ path: "/apis", accept: AGGREGATED }),
    ]);
    const kinds = [core, groups].flatMap(kindsOf).sort();
    return digest(text(version["gitVersion"]), ...kinds);
  }
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
