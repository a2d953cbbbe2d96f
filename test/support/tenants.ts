/** Teams with an account each, for tests of docs/guides/tenancy.md. */

import { chmodSync, copyFileSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { cluster, freshNamespace } from "./cluster.ts";
import type { Lab } from "./hook-files.ts";
import { startOperator, type OperatorProcess, type TestOptions } from "./operator.ts";

const GROUP = "rbac.authorization.k8s.io";

export interface Team {
  readonly namespace: string;
  readonly account: { readonly name: string; readonly namespace: string };
  /** As `serviceAccountName` names it. */
  readonly id: string;
}

export const OBJECTS = { apiGroups: [""], resources: ["configmaps", "secrets"], verbs: ["*"] };
const STORE = { apiGroups: [""], resources: ["secrets"], verbs: ["*"] };

/** Binds rules in one namespace to an account, which may be of another namespace. */
export async function grant(
  namespace: string,
  account: Team["account"],
  rules: readonly object[],
): Promise<void> {
  const name = `${account.namespace}-${account.name}`;
  await cluster().apply(
    { apiVersion: `${GROUP}/v1`, kind: "Role", metadata: { name, namespace }, rules },
    {
      apiVersion: `${GROUP}/v1`,
      kind: "RoleBinding",
      metadata: { name, namespace },
      roleRef: { apiGroup: GROUP, kind: "Role", name },
      subjects: [{ kind: "ServiceAccount", ...account }],
    },
  );
}

/** A namespace with an account that may write ConfigMaps and Secrets there, and Secrets in the operator's namespace. */
export async function makeTeam(operatorNamespace: string, prefix: string): Promise<Team> {
  const namespace = await freshNamespace(prefix);
  const account = { name: "deployer", namespace };
  await cluster().apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  await grant(namespace, account, [OBJECTS]);
  await grant(operatorNamespace, account, [STORE]);
  return { namespace, account, id: `${namespace}/deployer` };
}

/** A module of a team with a ConfigMap of its name in the team's namespace. */
export function teamModule(lab: Pick<Lab, "file">, name: string, team: Team): void {
  const dir = `modules/010-${name}`;
  lab.file(`${dir}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
  lab.file(`${dir}/values.yaml`, `${name}Enabled: true\n`);
  lab.file(`${dir}/addon.yaml`, `namespace: ${team.namespace}\nserviceAccountName: ${team.id}\n`);
  lab.file(
    `${dir}/templates/map.yaml`,
    `apiVersion: v1
kind: ConfigMap
metadata: {name: ${name}, namespace: {{ .Values.${name}.target | default "${team.namespace}" }}}
data: {text: {{ .Values.${name}.text | default "" | quote }}}
`,
  );
}

/** Lets hooks under user ids of their own reach the files of a lab. Returns a PATH with a kubectl that they may run. */
export function openToHooks(lab: Lab): string {
  chmodSync(lab.dir, 0o755);
  sharedBin ??= makeSharedBin();
  return `${sharedBin}:${process.env["PATH"]}`;
}

let sharedBin: string | undefined;

/** A directory with kubectl for all users: the cache of tools may be in the home of this one. */
function makeSharedBin(): string {
  const dir = mkdtempSync(join(tmpdir(), "bin-"));
  const kubectl = join(dir, "kubectl");
  copyFileSync(cluster().bin.kubectl, kubectl);
  for (const path of [dir, kubectl]) chmodSync(path, 0o755);
  return dir;
}

/** Starts an operator whose modules may name accounts of all namespaces, and whose hooks may call kubectl. */
export async function startWithTeams(
  namespace: string,
  lab: Lab,
  options: Partial<TestOptions> = {},
): Promise<OperatorProcess> {
  const path = openToHooks(lab);
  chmodSync(`${lab.dir}/records`, 0o777);
  writeFileSync(`${lab.dir}/records/order`, "");
  chmodSync(`${lab.dir}/records/order`, 0o666);
  return startOperator({
    namespace,
    modulesDir: lab.modulesDir,
    args: ["--service-account-namespaces=*", "--module-queues=own", `--tmp-dir=${lab.dir}/tmp`],
    env: { TMPDIR: "/tmp", PATH: path },
    ...options,
  });
}

interface AddonModuleStatus {
  readonly state?: string;
  readonly identity?: {
    readonly serviceAccount: string;
    readonly hooksIsolated: boolean;
    readonly message?: string;
  };
  readonly conditions?: readonly { readonly type: string; readonly message: string }[];
}

/** The status of a module; empty before there is one. */
export async function statusOf(namespace: string, module: string): Promise<AddonModuleStatus> {
  const args = ["get", "addonmodule", module, "-n", namespace, "--ignore-not-found"];
  return (await cluster().json<{ status?: AddonModuleStatus }>(args)).status ?? {};
}

/** The message of a module's condition Ready. */
export async function messageOf(namespace: string, module: string): Promise<string> {
  const { conditions = [] } = await statusOf(namespace, module);
  return conditions.find(({ type }) => type === "Ready")?.message ?? "";
}
