import { X509Certificate } from "node:crypto";
import { expect, onTestFinished } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { issueCa, issueServerCertificate, type KeyPair } from "../../src/webhooks/certificate/issue.ts";
import { bareStory } from "./bare-story.ts";
import { crdOfThings } from "./crds.ts";
import { converge } from "./scene-addons.ts";
import type { PageState } from "./scene.ts";
import type { Story } from "./story.ts";

/** The port of the webhook server of each scene: all its operators have the same URL. */
const ports = new WeakMap<PageState, number>();

const coveredBy = ({ namespace }: PageState): string => `${namespace}-covered`;
const groupOf = ({ namespace }: PageState): string => `${namespace}.example.com`;
const HOOK = "modules/010-gate/hooks/gate.sh";
const SECRET = "addon-operator-addon-operator-webhooks";

/** A hook that refuses ConfigMaps named `refused`, marks all others and all objects that it converts, and names itself. */
function writeHook(pageState: PageState, by: string): void {
  const group = groupOf(pageState);
  const binding = (kind: string) => ({
    name: `${kind}-${by}.example.com`,
    rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
    namespace: { labelSelector: { matchLabels: { "kubernetes.io/metadata.name": coveredBy(pageState) } } },
  });
  const conversion = {
    name: "things",
    crdName: `things.${group}`,
    conversions: [
      { fromVersion: "v1", toVersion: "v2" },
      { fromVersion: "v2", toVersion: "v1" },
    ],
  };
  const config = JSON.stringify({
    configVersion: "v1",
    kubernetesValidating: [binding("validate")],
    kubernetesMutating: [binding("mutate")],
    kubernetesCustomResourceConversion: [conversion],
  });
  const patch = Buffer.from(JSON.stringify([{ op: "add", path: "/data", value: { by } }])).toString("base64");
  pageState.file(
    HOOK,
    `#!/usr/bin/env bash
if [ "\${1:-}" = --config ]; then echo '${config}'; exit 0; fi
context="$(cat "$BINDING_CONTEXT_PATH")"
case "$context" in
*'"type":"Conversion"'*) sed -e 's#.*"objects":#{"convertedObjects":#; s#}},"toVersion":"[^"]*","type":"Conversion"}]$#}#' \\
  -e 's#${group}/v1"#${group}/v2"#g; s#"metadata":{#&"labels":{"by":"${by}"},#g' <<<"$context" >"$CONVERSION_RESPONSE_PATH";;
*'"type":"Mutating"'*) echo '{"allowed":true,"patch":"${patch}"}' >"$ADMISSION_RESPONSE_PATH";;
*'"name":"refused"'*) echo '{"allowed":false,"message":"refused by ${by}"}' >"$ADMISSION_RESPONSE_PATH";;
*) echo '{"allowed":true}' >"$ADMISSION_RESPONSE_PATH";;
esac
`,
  );
}

const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };

/** A request of a user. */
async function ask(
  { proxy }: PageState,
  path: string,
  body?: object,
): Promise<{ status: number; text: string }> {
  const headers = { "user-agent": "kubectl", "content-type": "application/json" };
  const call = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(`${proxy.url}${path}`, { headers, ...call });
  return { status: answer.status, text: await answer.text() };
}

const thingsOf = (pageState: PageState, version: string): string =>
  `/apis/${groupOf(pageState)}/${version}/namespaces/${coveredBy(pageState)}/things`;

/** A namespace that webhooks cover, a custom resource that they convert, and the hook. */
async function openGate(pageState: PageState): Promise<void> {
  const { cluster, namespace } = pageState;
  const [port = 0] = await freePorts(1);
  ports.set(pageState, port);
  const group = groupOf(pageState);
  const version = (name: string, storage: boolean) => ({ name, served: true, storage, schema });
  await cluster.apply(
    { apiVersion: "v1", kind: "Namespace", metadata: { name: coveredBy(pageState) } },
    crdOfThings(group, [version("v1", true), version("v2", false)]),
  );
  onTestFinished(async () => {
    for (const kind of ["validating", "mutating"])
      await cluster.kubectl([
        "delete",
        `${kind}webhookconfiguration`,
        `${namespace}-hooks`,
        "--ignore-not-found",
      ]);
    await cluster.kubectl(["delete", "crd", `things.${group}`, "--wait=false", "--ignore-not-found"]);
  });
  await cluster.kubectl(["wait", "crd", `things.${group}`, "--for=condition=Established"]);
  const thing = { apiVersion: `${group}/v1`, kind: "Thing", metadata: { name: "any" } };
  await expect.poll(() => ask(pageState, thingsOf(pageState, "v1"), thing)).toMatchObject({ status: 201 });
  pageState.file("modules/010-gate/values.yaml", "gateEnabled: true\n");
  writeHook(pageState, "one");
}

const options = (pageState: PageState): { readonly env: Readonly<Record<string, string>> } => ({
  env: {
    WEBHOOK_URL: `https://127.0.0.1:${ports.get(pageState)}`,
    WEBHOOK_PORT: String(ports.get(pageState)),
    WEBHOOK_LISTEN_ADDRESS: "127.0.0.1",
    WEBHOOK_CONFIGURATION_NAME: pageState.namespace,
  },
});

interface StoredSecret {
  readonly data: Readonly<Record<string, string>>;
}

async function readSecret({ cluster, namespace }: PageState): Promise<StoredSecret["data"]> {
  return (await cluster.json<StoredSecret>(["get", "secret", SECRET, "-n", namespace])).data;
}

/** What requests meet: who refuses, changes and converts; throws unless it is `by`. */
async function lookAtRequests(pageState: PageState, by: string | undefined): Promise<object> {
  const create = (name: string) =>
    ask(pageState, `/api/v1/namespaces/${coveredBy(pageState)}/configmaps?dryRun=All`, {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name },
    });
  const refused = await create("refused");
  if (by === undefined) expect(refused).toMatchObject({ status: 201 });
  else expect(refused.text).toContain(`denied the request: refused by ${by}`);
  const changed = JSON.parse((await create("changed")).text) as { data?: unknown };
  expect(changed.data).toEqual(by === undefined ? undefined : { by });
  const converted = await ask(pageState, `${thingsOf(pageState, "v2")}/any`);
  const { metadata } = JSON.parse(converted.text) as { metadata?: { labels?: unknown } };
  expect({ status: converted.status, labels: metadata?.labels }).toEqual({
    status: 200,
    labels: by === undefined ? undefined : { by },
  });
  return { refused: refused.status };
}

/** The webhooks as they are registered, and whether each trusts exactly the CAs of the certificate's Secret. */
async function lookAtRegistration(pageState: PageState): Promise<unknown> {
  const { cluster, namespace } = pageState;
  const ca = (await readSecret(pageState))["ca.crt"] ?? "";
  const get = (args: readonly string[]): Promise<string> =>
    cluster.kubectl(["get", ...args, "--ignore-not-found", "-o", "json"]);
  const texts = await Promise.all([
    get(["validatingwebhookconfiguration", `${namespace}-hooks`]),
    get(["mutatingwebhookconfiguration", `${namespace}-hooks`]),
    get(["crd", `things.${groupOf(pageState)}`]),
  ]);
  const [validating, mutating, crd] = texts.map(
    (text) => JSON.parse(text.trim() || "{}") as { webhooks?: unknown; spec?: { conversion?: unknown } },
  );
  const text = JSON.stringify([validating?.webhooks, mutating?.webhooks, crd?.spec?.conversion]);
  return JSON.parse(
    text.replaceAll(`"${ca}"`, '"CA of the Secret"').replaceAll(`:${ports.get(pageState)}/`, ":PORT/"),
  );
}

async function lookAtGate(pageState: PageState, by: string | undefined): Promise<unknown> {
  return [await lookAtRequests(pageState, by), await lookAtRegistration(pageState)];
}

const story = {
  options,
  furnish: openGate,
  begins: (pageState: PageState) => lookAtGate(pageState, "one"),
};

const DAY_MS = 86_400_000;

/** A CA and a certificate in the Secret, valid from and to so many days from now. */
interface Seeded extends Pick<Story, "name"> {
  /** The CAs, the newest first; the last one signs. */
  readonly cas: readonly (readonly [from: number, to: number])[];
  readonly server: readonly [from: number, to: number];
  /** The day on which the first operator runs. Nothing is due then. */
  readonly before: number;
}

/** Renewals wait for months: the first operator gets the time of the past, and its successor the true one. */
function renewal(seeded: Seeded, expected: object): Story {
  const validity = ([from, to]: readonly [number, number]) => ({
    from: Date.now() + from * DAY_MS,
    to: Date.now() + to * DAY_MS,
  });
  const timeTravels = new WeakMap<PageState, () => void>();
  const furnish = async (pageState: PageState): Promise<void> => {
    await openGate(pageState);
    const cas = seeded.cas.map((each) => issueCa(validity(each)));
    const server = issueServerCertificate(cas.at(-1) as KeyPair, ["127.0.0.1"], validity(seeded.server));
    const texts = {
      "tls.crt": server.cert,
      "tls.key": server.key,
      "ca.crt": cas.map(({ cert }) => cert).join(""),
      "ca.key": cas[0]?.key ?? "",
    };
    await pageState.cluster.apply({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: SECRET, namespace: pageState.namespace },
      stringData: texts,
    });
    const stop = pageState.proxy.rewrite(
      ({ method, path, query }) => method === "POST" && path.endsWith("/secrets") && query.has("dryRun"),
      (body) => {
        const secret = JSON.parse(body) as { metadata: { creationTimestamp: string } };
        const time = new Date(Date.now() + seeded.before * DAY_MS).toISOString();
        return JSON.stringify({ ...secret, metadata: { ...secret.metadata, creationTimestamp: time } });
      },
    );
    timeTravels.set(pageState, stop);
  };
  return bareStory({
    ...story,
    name: seeded.name,
    furnish,
    isRestart: true,
    act: async (pageState) => timeTravels.get(pageState)?.(),
    look: async (pageState) => {
      const found = await lookAtCertificate(pageState);
      expect(found).toMatchObject(expected);
      return [found, await lookAtGate(pageState, "one")];
    },
  });
}

/** How many CAs are trusted, which of them signed the certificate, and how many days it lasts. */
async function lookAtCertificate(pageState: PageState): Promise<object> {
  const data = await readSecret(pageState);
  const text = (key: string): string => Buffer.from(data[key] ?? "", "base64").toString();
  const cas = text("ca.crt")
    .split(/(?<=-----END CERTIFICATE-----)/)
    .filter((part) => part.includes("BEGIN"))
    .map((part) => new X509Certificate(part));
  const server = new X509Certificate(text("tls.crt"));
  return {
    cas: cas.length,
    signedBy: cas.findIndex((ca) => server.verify(ca.publicKey)),
    days: Math.round((server.validToDate.getTime() - Date.now()) / DAY_MS),
  };
}

/** Webhooks of a hook are registered, changed and removed; their certificate and its CA are renewed. */
export const WEBHOOK_STORIES: readonly Story[] = [
  bareStory({
    ...story,
    name: "webhook-add",
    look: (pageState) => lookAtGate(pageState, "one"),
  }),
  bareStory({
    ...story,
    name: "webhook-change",
    act: async (pageState) => {
      writeHook(pageState, "two");
      await converge(pageState);
    },
    look: (pageState) => lookAtGate(pageState, "two"),
  }),
  bareStory({
    ...story,
    name: "webhook-remove",
    act: async (pageState) => {
      pageState.remove(HOOK);
      await converge(pageState);
    },
    look: (pageState) => lookAtGate(pageState, undefined),
  }),
  renewal(
    {
      name: "certificate",
      // API servers know the new CA for a month.
      cas: [
        [-30, 3000],
        [-3000, 300],
      ],
      server: [-130, 20],
      before: -20,
    },
    { cas: 2, signedBy: 0, days: 90 },
  ),
  renewal(
    { name: "certificate-ca", cas: [[-3000, 300]], server: [-130, 60], before: -100 },
    { cas: 2, signedBy: 1, days: 60 },
  ),
];
