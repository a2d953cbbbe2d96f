// The steps of the demo. Each step checks what it prints, and throws if that is not true.
import { createHash } from "node:crypto";
import { eventually } from "../eventually.mjs";
import {
  configMapOf,
  created,
  elapsed,
  expect,
  inNamespace,
  modulesAreInstalled,
  setKeys,
  settled,
  table,
} from "./steps.mjs";

/** `demo` is `{ cluster, operator, namespace, step, say }`. */
export async function tour(demo) {
  await modulesAreInstalled(demo);
  const certificate = await valuesAreKept(demo);
  await configMapIsFollowed(demo);
  await clusterIsFollowed(demo);
  await modulesGoAndCome(demo, certificate);
}

async function valuesAreKept(demo) {
  demo.step("Find the cluster ID and the certificate authority that hooks saved in the ConfigMap");
  const [{ data }, certificate] = await Promise.all([configMapOf(demo, demo.namespace), bundleOf(demo)]);
  expect(/^clusterId: /m.test(data.global ?? ""), "the ConfigMap holds global.clusterId");
  expect(/BEGIN CERTIFICATE/.test(data.internalCa ?? ""), "the ConfigMap holds internalCa.ca");
  expect(certificate.includes("BEGIN CERTIFICATE"), "ConfigMap trust-bundle holds the certificate");
  demo.say(`global: ${data.global.trim()}`);
  demo.say(`ConfigMap trust-bundle: certificate with the SHA-256 digest ${digest(certificate)}`);
  return certificate;
}

async function configMapIsFollowed(demo) {
  demo.step("Add a PriorityClass in the ConfigMap");
  const from = performance.now();
  await setKeys(demo, {
    priorityClasses: "classes:\n  batch-low:\n    value: -10\n    description: Work that can wait\n",
  });
  await created(demo, "priorityclass/batch-low");
  demo.say(`The PriorityClass batch-low existed ${elapsed(from)} after the start of kubectl`);
  await settled(demo, ["priority-classes"], { "release.revision": 2, state: "Ready" });
  await table(demo);
}

async function clusterIsFollowed(demo) {
  demo.step("Label a namespace, to which guard-rails then adds objects");
  const { kubectl, createNamespace } = demo.cluster;
  await createNamespace("shop");
  await kubectl(["label", "namespace", "shop", "guard-rails=true"]);
  const kinds =
    "limitrange/guard-rails,resourcequota/guard-rails,networkpolicy/guard-rails-default-deny".split(",");
  // Helm makes it last of the three.
  await created(demo, "limitrange/guard-rails", "shop");
  const get = ["get", "-n", "shop", "-o", "name", ...kinds];
  demo.say((await eventually(() => kubectl(get), "guard rails of namespace shop")).trimEnd());
}

async function modulesGoAndCome(demo, certificate) {
  demo.step("Disable internal-ca and trust-bundle, which requires it and is removed first");
  await setKeys(demo, { internalCaEnabled: "false", trustBundleEnabled: "false" });
  await settled(demo, ["internal-ca", "trust-bundle"], { state: "Disabled" });
  const left = ["get", "secret,configmap", "-o", "name"];
  const missing = async () =>
    !/secret\/internal-ca$|configmap\/trust-bundle$/m.test(await inNamespace(demo, left));
  await eventually(missing, "Secret internal-ca and ConfigMap trust-bundle are deleted");
  await table(demo);
  demo.step("Enable both modules again, with the same certificate authority");
  await setKeys(demo, { internalCaEnabled: null, trustBundleEnabled: null });
  await settled(demo, ["internal-ca", "trust-bundle"], { state: "Ready" });
  const same = async () => digest(await bundleOf(demo)) === digest(certificate);
  await eventually(same, "the certificate is the one of before");
  await table(demo);
}

async function bundleOf(demo) {
  return (await configMapOf(demo, "trust-bundle")).data["ca.crt"].trim();
}

const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 16);
