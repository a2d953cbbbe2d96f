// Runs at night: hostile input.
import { chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";
import { makeTeam, messageOf, startWithTeams, statusOf, teamModule } from "../support/tenants.ts";

// docs/guides/tenancy.md, "Which boundaries hold": a hook of one team against the operator and another team.

const { kubectl, apply } = cluster();

/** Waits, so that its files and its process are there while the other hook tries to reach them. */
const VICTIM = `#!/usr/bin/env bash
[ "\${1:-}" = --config ] && { echo '{"configVersion": "v1", "beforeHelm": 1}'; exit 0; }
RECORDS=LAB/records
umask 022
{ echo "victim=$$"; echo "context=$BINDING_CONTEXT_PATH"; echo "values=$VALUES_PATH"; echo "config=$KUBECONFIG"
  echo "patch=$KUBERNETES_PATCH_PATH"; } >"$RECORDS/victim.new"
mv "$RECORDS/victim.new" "$RECORDS/victim"
until [ -e "$RECORDS/go-victim" ]; do sleep 0.05; done
`;

/** Tries each step; says \`worked\`, or \`stopped\` with the error. */
const HOSTILE = `#!/usr/bin/env bash
if [ "\${1:-}" = --config ]; then
  # No credentials while it is asked for its configuration.
  kubectl get secrets -n OTHER >/dev/null 2>&1 && exit 1
  echo '{"configVersion": "v1", "beforeHelm": 1, "kubernetes": [
    {"name": "others", "kind": "Secret", "namespace": {"nameSelector": {"matchNames": ["OTHER"]}}}]}'
  exit 0
fi
jq -e 'any(.[]; .binding == "beforeHelm")' "$BINDING_CONTEXT_PATH" >/dev/null || exit 0
RECORDS=LAB/records
until [ -e "$RECORDS/victim" ] && [ -e "$RECORDS/operator" ]; do sleep 0.05; done
. "$RECORDS/victim"
. "$RECORDS/operator"
try() { local name=$1 said; shift
  [ -e "$RECORDS/go-victim" ] && return # a retry
  if said=$(timeout 10 "$@" 2>&1 >/dev/null </dev/null); then echo "$name worked"; else echo "$name stopped: $(echo "$said" | tail -1)"; fi >>"$RECORDS/steps"; }
sh_try() { try "$1" bash -c "$2"; }
try own-secret kubectl get secret own -n TEAM
try secret-of-other-team kubectl get secret theirs -n OTHER
try impersonate-the-other-team kubectl get secret theirs -n OTHER --as=system:serviceaccount:OTHER:deployer
try token-of-the-other-team kubectl create token deployer -n OTHER
try rights-for-itself kubectl create rolebinding more -n TEAM --clusterrole=cluster-admin --serviceaccount=TEAM:deployer
try edit-the-ConfigMap-of-the-operator kubectl create configmap addon-operator -n OPERATOR
sh_try snapshot-of-other-team "jq -e '[.[].snapshots // {} | .[][]?] | length > 0' $BINDING_CONTEXT_PATH"
sh_try environment-of-operator "cat /proc/$operator/environ"
sh_try memory-of-operator "head -c 1 /proc/$operator/mem"
sh_try files-open-in-operator "ls /proc/$operator/fd"
sh_try root-directory-of-operator "ls /proc/$operator/root/"
sh_try signal-operator "kill -0 $operator"
sh_try kubeconfig-of-operator "cat LAB/tmp/kube.*/*.kubeconfig OPERATORCONFIG"
sh_try list-temp-directory "ls LAB/tmp"
sh_try context-of-other-hook "cat $context"
sh_try values-of-other-hook "cat $values"
sh_try kubeconfig-of-other-hook "cat $config"
sh_try token-of-other-hook "cat $(dirname $config)/token"
sh_try write-patch-of-other-hook "echo x >>$patch"
sh_try environment-of-other-hook "cat /proc/$victim/environ"
sh_try memory-of-other-hook "head -c 1 /proc/$victim/mem"
sh_try signal-other-hook "kill -0 $victim"
sh_try replace-own-output-by-link "ln -sf $config $KUBERNETES_PATCH_PATH"
sh_try set-user-id-of-operator "setpriv --reuid=0 true"
sh_try file-with-set-user-id-bit "cp /bin/cat $TMPDIR/cat && chmod u+s $TMPDIR/cat && chown 0 $TMPDIR/cat"
sh_try root-of-a-namespace-reads-other-hook "unshare -Ur cat $config"
sh_try replace-temp-directory "mv LAB/tmp LAB/moved"
sh_try debug-socket "curl -sS --fail --max-time 5 --unix-socket $socket http://x/modules"
sh_try write-into-modules-directory "echo x >>LAB/modules/010-victim/hooks/hook.sh"
sh_try own-temp-directory "echo x >$TMPDIR/file"
sh_try command-lines-in-proc "cat /proc/$operator/cmdline /proc/$victim/cmdline"
printf '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "OTHER"}}}' >"$KUBERNETES_PATCH_PATH"
touch "$RECORDS/go-victim"
`;

/** Steps that the account allows, or that docs/guides/tenancy.md says are possible. */
const ALLOWED = ["command-lines-in-proc", "own-secret", "own-temp-directory"];
/** Steps that only a user id of its own stops. */
const BY_USER_ID = [
  "context-of-other-hook",
  "debug-socket",
  "environment-of-operator",
  "environment-of-other-hook",
  "file-with-set-user-id-bit",
  "files-open-in-operator",
  "kubeconfig-of-operator",
  "kubeconfig-of-other-hook",
  "list-temp-directory",
  "memory-of-operator",
  "memory-of-other-hook",
  "replace-own-output-by-link",
  "replace-temp-directory",
  "root-directory-of-operator",
  "root-of-a-namespace-reads-other-hook",
  "set-user-id-of-operator",
  "signal-operator",
  "signal-other-hook",
  "token-of-other-hook",
  "values-of-other-hook",
  "write-into-modules-directory",
  "write-patch-of-other-hook",
];

test("a hostile hook is stopped at each step that the guide names", { timeout: 180_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const [a, b] = [await makeTeam(namespace, "team-a"), await makeTeam(namespace, "team-b")];
  const secret = (name: string, of: string) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: of },
  });
  await apply(secret("own", a.namespace), secret("theirs", b.namespace));
  const lab = hookLab("tenancy");
  const filled = (text: string): string =>
    text
      .replaceAll("OPERATORCONFIG", cluster().kubeconfig)
      .replaceAll("OPERATOR", namespace)
      .replaceAll("OTHER", b.namespace)
      .replaceAll("TEAM", a.namespace)
      .replaceAll("LAB/", `${lab.dir}/`);
  teamModule(lab, "hostile", a);
  lab.file("modules/010-hostile/hooks/hook.sh", filled(HOSTILE));
  teamModule(lab, "victim", b);
  lab.file("modules/010-victim/hooks/hook.sh", filled(VICTIM));
  const operator = await startWithTeams(namespace, lab);
  const { pid, socket } = operator;
  // Whatever the umask, the hostile hook reads where to look.
  const pids = join(lab.dir, "records", "operator.new");
  writeFileSync(pids, `operator=${pid}\nsocket=${socket}\n`);
  chmodSync(pids, 0o644);
  renameSync(pids, join(lab.dir, "records", "operator"));
  const ready = ["wait", "-n", namespace, "addonmodule/victim", "--for=condition=Ready", "--timeout=90s"];
  await eventually(() => kubectl(ready), "victim is Ready", { timeoutMs: 100_000, context: operator.log });

  const said = readFileSync(join(lab.dir, "records", "steps"), "utf8")
    .trim()
    .split("\n");
  const ending = (end: string): string[] =>
    said.filter((line) => line.includes(` ${end}`)).flatMap((line) => line.split(" ")[0] ?? []);
  const [worked, stopped] = [ending("worked"), ending("stopped: ")];
  const isIsolated = (await statusOf(namespace, "hostile")).identity?.hooksIsolated;
  expect(stopped.length + worked.length).toBeGreaterThanOrEqual(30);
  // What the API server decides holds always.
  const byOthers = isIsolated === true ? worked : worked.filter((name) => !BY_USER_ID.includes(name));
  expect(byOthers.toSorted()).toEqual(ALLOWED);
  // Its object patch is refused, and the message names the rule.
  const rule = `missing rule: grant ServiceAccount ${a.id}: `;
  await eventually(async () => (await messageOf(namespace, "hostile")).includes(rule), rule, {
    context: operator.log,
  });
  expect(await messageOf(namespace, "hostile")).toContain(`configmaps in namespace ${b.namespace}`);
});

test(
  "who may write Secrets in the operator's namespace gets a token of each of its accounts",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("tenancy");
    const team = await makeTeam(namespace, "team-a");
    await apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "operator", namespace } });
    const as = ["-n", namespace, `--as=system:serviceaccount:${team.namespace}:deployer`];
    const token = {
      apiVersion: "v1",
      kind: "Secret",
      type: "kubernetes.io/service-account-token",
      metadata: { name: "taken", annotations: { "kubernetes.io/service-account.name": "operator" } },
    };
    await kubectl(["create", "-f", "-", ...as], JSON.stringify(token));
    const read = ["get", "secret", "taken", "-o", "jsonpath={.data.token}", ...as];
    await eventually(async () => (await kubectl(read)) !== "", "there is a token");
    // Without rights on Secrets there, which a module without a chart does not need, it gets none.
    await kubectl(["delete", "rolebinding", `${team.namespace}-deployer`, "-n", namespace]);
    await expect(kubectl(read)).rejects.toThrow(/Forbidden/);
  },
);
