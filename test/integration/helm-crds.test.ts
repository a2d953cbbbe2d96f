import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { ensureCrds } from "../../src/helm/index.ts";
import { connect } from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/lib/index.ts";
import { ProblemError } from "../../src/model/index.ts";
import { cluster } from "../support/cluster.ts";

let dir: string;
let client: KubeClient;
let group: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "crds-"));
  group = `crds-${randomBytes(4).toString("hex")}.example.org`;
  client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
});

afterEach(async () => {
  await cluster().kubectl(["delete", "crd", `things.${group}`, `wheels.${group}`, "--ignore-not-found"]);
  await client.close();
  await rm(dir, { recursive: true, force: true });
});

const CONVERSION = `  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: default, name: convert, path: /}}
`;

function crd(plural: string, property: string, more = ""): string {
  const kind = plural === "things" ? "Thing" : "Wheel";
  const schema = `{type: object, properties: {spec: {type: object, properties: {${property}: {type: string}}}}}`;
  return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${plural}.${group}}
spec:
  group: ${group}
  names: {kind: ${kind}, plural: ${plural}}
  scope: Cluster
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: ${schema}}}
${more}`;
}

async function apply(text: string): Promise<string[]> {
  const file = join(dir, "crd.yaml");
  await writeFile(file, text);
  return ensureCrds([file], { client, clock: systemClock });
}

const get = (path: string): Promise<string> =>
  cluster().kubectl(["get", "crd", `things.${group}`, "-o", `jsonpath={${path}}`]);
const propertiesNow = (): Promise<string> =>
  get(".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties");

describe("crds/ of modules", () => {
  test("are created, several in a file, and served when the call returns", async () => {
    const names = await apply(
      `# wheels and things\n---\n${crd("things", "size")}---\n${crd("wheels", "width")}`,
    );
    expect(names).toEqual([`things.${group}`, `wheels.${group}`]);
    const thing = {
      apiVersion: `${group}/v1`,
      kind: "Thing",
      metadata: { name: "one" },
      spec: { size: "1" },
    };
    await cluster().apply(thing);
    expect(await cluster().kubectl(["get", `things.${group}`, "-o", "name"])).toContain("one");
  });

  test("are upgraded; objects of theirs stay, and so does one that its file no longer has", async () => {
    await apply(`${crd("things", "size")}---\n${crd("wheels", "width")}`);
    const thing = { apiVersion: `${group}/v1`, kind: "Thing", metadata: { name: "one" }, spec: {} };
    await cluster().apply(thing);
    await apply(crd("things", "colour"));
    expect(await propertiesNow()).toBe('{"colour":{"type":"string"}}');
    expect(await cluster().kubectl(["get", `things.${group}`, "-o", "name"])).toContain("one");
    expect(await cluster().kubectl(["get", "crd", `wheels.${group}`, "-o", "name"])).toContain("wheels");
  });

  test("keep a conversion that somebody else has put there", async () => {
    await apply(crd("things", "size"));
    const conversion = {
      strategy: "Webhook",
      webhook: {
        conversionReviewVersions: ["v1"],
        clientConfig: { service: { namespace: "default", name: "convert", path: "/" } },
      },
    };
    const patch = JSON.stringify({ spec: { conversion } });
    await cluster().kubectl(["patch", "crd", `things.${group}`, "--type=merge", "-p", patch]);
    await apply(crd("things", "colour"));
    expect(await get(".spec.conversion.strategy")).toBe("Webhook");
    await apply(crd("things", "colour", CONVERSION.replace("convert", "other")));
    expect(await get(".spec.conversion.webhook.clientConfig.service.name")).toBe("other");
  });

  test.each([
    [
      "something else",
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
      /no CustomResourceDefinition/,
    ],
    ["no YAML", "{ broken", /no CustomResourceDefinition/],
    [
      "what the server refuses",
      () => crd("things", "size").replace("storage: true", "storage: false"),
      /storage/,
    ],
  ])("%s is a problem of its file", async (_what, text, message) => {
    const failure = apply(typeof text === "string" ? text : text());
    await expect(failure).rejects.toThrow(ProblemError);
    await expect(failure).rejects.toThrow(message);
    await expect(failure).rejects.toThrow(join(dir, "crd.yaml"));
  });
});
