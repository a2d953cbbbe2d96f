// Runs at night: moves and limits that few changes touch.
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../src/helm/index.ts";
import { connect } from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { ProblemError } from "../../src/base/model/index.ts";
import { cluster } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import type { Seen } from "../support/fault-proxy.ts";

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

async function apply(text: string, confirmed?: string): Promise<string[]> {
  const file = join(dir, "crd.yaml");
  await writeFile(file, text);
  return ensureCrds([file], { client, clock: systemClock, confirmed });
}

/** What it is refused for, and the token that confirms it. */
async function refusal(text: string): Promise<{ message: string; token: string }> {
  const error: unknown = await apply(text).then(
    () => undefined,
    (failure: unknown) => failure,
  );
  if (!(error instanceof ProblemError)) throw new Error("it was taken", { cause: error });
  const token = / addon-operator\.io\/confirm-crds=([0-9a-f]{12}) /.exec(error.message)?.[1] ?? "";
  return { message: error.message, token };
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

  test("replace a conversion of another kind as a whole, whoever owns it", async () => {
    await apply(crd("things", "size", CONVERSION));
    const caBundle = Buffer.from(rootCertificates[0] ?? "").toString("base64");
    const patch = { spec: { conversion: { webhook: { clientConfig: { caBundle } } } } };
    const inject = (): Promise<string> =>
      cluster().kubectl(
        ["patch", "crd", `things.${group}`, "--type=merge", "--field-manager=cainjector", "-p"].concat(
          JSON.stringify(patch),
        ),
      );
    await inject();
    // The same kind of conversion keeps what others have added.
    await apply(crd("things", "size", CONVERSION.replace("convert", "other")));
    expect(await get(".spec.conversion.webhook.clientConfig")).toContain("caBundle");
    const byUrl = CONVERSION.replace(/service: .*\}\}/, 'url: "https://convert.example.org/"}');
    await apply(crd("things", "colour", byUrl));
    expect(await get(".spec.conversion.webhook.clientConfig")).toBe('{"url":"https://convert.example.org/"}');
    await inject();
    await apply(crd("things", "size", "  conversion: {strategy: None}\n"));
    expect(await get(".spec.conversion")).toBe('{"strategy":"None"}');
  });

  test("lose what their file no longer has, although helm owns it, too", async () => {
    const names = "kind: Thing, shortNames: [th], categories: [all],";
    const before = crd("things", "size", CONVERSION)
      .replace("kind: Thing,", names)
      .replace("metadata: {", "metadata: {labels: {a: b}, ");
    const asHelm = ["apply", "--server-side", "--field-manager=helm", "-f", "-"];
    await cluster().kubectl(asHelm, before);
    await apply(before);
    await apply(crd("things", "size"));
    expect(await get(".spec.names.shortNames")).toBe("");
    expect(await get(".spec.names.categories")).toBe("");
    expect(await get(".metadata.labels")).toBe("");
    // A file without a conversion leaves it to others.
    expect(await get(".spec.conversion.strategy")).toBe("Webhook");
    await apply(crd("things", "size", "  conversion: {strategy: None}\n"));
    expect(await get(".spec.conversion.strategy")).toBe("None");
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
    [
      "one version of two that the server refuses",
      () => inVersions("v1").replace(/(name: v2.*)type: object, properties/, "$1type: objekt, properties"),
      /versions\[1\].*objekt/,
    ],
    [
      "what does not fit its type",
      () => crd("things", "size").replace("kind: Thing,", "kind: Thing, shortNames: th,"),
      /refuses CRD things\..*shortNames: expected list, got/,
    ],
  ])("%s is a problem of its file", async (_what, text, message) => {
    const failure = apply(typeof text === "string" ? text : text());
    await expect(failure).rejects.toThrow(ProblemError);
    await expect(failure).rejects.toThrow(message);
    await expect(failure).rejects.toThrow(join(dir, "crd.yaml"));
  });

  test("are applied without fields that a definition does not have", async () => {
    const recorded = crd("things", "size").replace("{type: string}", "{type: string, x-doc-default: b}");
    await apply(recorded);
    expect(await propertiesNow()).toBe('{"size":{"type":"string"}}');
  });
});

/** Two versions of Things; `stored` is the one in which they are stored. */
const inVersions = (stored: "v1" | "v2" | undefined, served = "v1 v2"): string => {
  const schema = "{type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}";
  const versions = ["v1", "v2"].filter((name) => stored !== undefined || name === "v2");
  const line = (name: string): string =>
    `    - {name: ${name}, served: ${served.includes(name)}, storage: ${name === (stored ?? "v2")}, schema: {openAPIV3Schema: ${schema}}}\n`;
  return crd("things", "size").replace(/ {4}- .*\n/, versions.map(line).join(""));
};

const thing = (name: string, spec: object, version = "v1"): object => ({
  apiVersion: `${group}/${version}`,
  kind: "Thing",
  metadata: { name },
  spec,
});

describe("crds/ that would break objects that live", () => {
  test("by a stricter schema are refused with their names, the old one stays; confirmed they pass", async () => {
    await apply(crd("things", "size"));
    const names = ["a", "b", "c", "d", "e", "f", "g"];
    await cluster().apply(
      ...names.map((name) => thing(name, { size: "large" })),
      thing("tiny", { size: "s" }),
    );
    const strict = crd("things", "size").replace("{type: string}", "{type: string, maxLength: 2}");
    const { message, token } = await refusal(strict);
    expect(message).toContain(
      `things.${group} has a stricter schema in version v1: Thing a (/spec/size must NOT have more than 2 characters), b`,
    );
    expect(message).toMatch(/ and 2 more/);
    expect(message).not.toContain("tiny");
    expect(await propertiesNow()).toBe('{"size":{"type":"string"}}');
    await expect(apply(strict, "0123456789ab")).rejects.toThrow("stricter schema");
    await apply(strict, token);
    expect(await propertiesNow()).toBe('{"size":{"maxLength":2,"type":"string"}}');
    // What is in force takes nothing away.
    await apply(strict);
  });

  test("by a version that is served no more, and that somebody writes in", async () => {
    await apply(inVersions("v1"));
    await cluster().apply(thing("old", {}, "v1"));
    await apply(inVersions("v1", "v1"));
    await apply(inVersions("v1"));
    await cluster().apply(thing("new", {}, "v2"));
    const { message } = await refusal(inVersions("v1", "v1"));
    expect(message).toContain(
      "no longer serves version v2: Thing new (written in it by kubectl-client-side-apply)",
    );
    await cluster().kubectl(["delete", `things.${group}`, "new"]);
    await apply(inVersions("v1", "v1"));
  });

  test("by a stored version that goes, where the cluster does not migrate, until the commands were run", async () => {
    const shell = async (command: string): Promise<void> => {
      const { bin, kubeconfig } = cluster();
      const own = command.replaceAll("kubectl ", `${bin.kubectl} --kubeconfig=${kubeconfig} `);
      await execa("bash", ["-c", `set -o pipefail; ${own}`]);
    };
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    onTestFinished(() => proxy.close());
    const isMigration = ({ path }: Seen): boolean => path === "/apis/storagemigration.k8s.io";
    proxy.answer(isMigration, { status: 404, reason: "NotFound" }, Infinity);
    await client.close();
    client = connect({ kubeConfig: proxy.kubeconfig, userAgent: "test", logger: silentLogger });
    await apply(inVersions("v1"));
    await cluster().apply(thing("kept", { size: "large" }));
    const { message, token } = await refusal(inVersions(undefined));
    expect(token).toBe("");
    expect(message).toContain("drops version v1, in which objects are stored: Thing kept");
    expect(message).toContain("this cluster does not serve StorageVersionMigration");
    const [, command = ""] = /ask for a run: (.*)\)/.exec(message) ?? [];
    await shell(command);
    expect(await get(".status.storedVersions")).toBe('["v2"]');
    // Somebody wrote it in v1, which is served no more: that may be confirmed now.
    await apply(inVersions(undefined), (await refusal(inVersions(undefined))).token);
    const path = ["get", `things.v2.${group}`, "kept", "-o", "jsonpath={.spec.size}"];
    expect(await cluster().kubectl(path)).toBe("large");
  });

  test("by a version that nobody can convert to are refused with what has to come first", async () => {
    await apply(crd("things", "size"));
    const { message } = await refusal(inVersions(undefined));
    expect(message).toContain("take a definition that has both versions first");
    expect(await get(".spec.versions[*].name")).toBe("v1");
  });
});
