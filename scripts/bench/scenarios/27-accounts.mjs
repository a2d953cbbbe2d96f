import { nameOf, writeModules } from "../modules.mjs";
import { shHook } from "../tiny.mjs";

const COUNT = 200;
const GROUP = "rbac.authorization.k8s.io";

export default {
  name: "accounts",
  title: `first converge of ${COUNT} modules: a ServiceAccount for each, and without`,
  long: true,
  async run(bench) {
    const rounds = [];
    // In both orders, because what a converge leaves in the cluster slows down the next one.
    for (const hasAccounts of [false, true, true, false]) rounds.push(await converge(bench, hasAccounts));
    const meanOf = (key, hasAccounts) => {
      const chosen = rounds.filter((each) => each.hasAccounts === hasAccounts);
      return chosen.reduce((sum, each) => sum + each[key], 0) / chosen.length;
    };
    const more = (key) => {
      const without = meanOf(key, false);
      return Number(((100 * (meanOf(key, true) - without)) / without).toFixed(1));
    };
    return [
      { what: "without accounts", value: meanOf("ms", false), unit: "ms" },
      { what: "with accounts", value: meanOf("ms", true), unit: "ms" },
      { what: "more with accounts", value: more("ms"), unit: "%", target: 10 },
      { what: "more processor time of the operator", value: more("cpuMs"), unit: "%" },
      {
        what: "TokenRequests for each run with a hook",
        value: meanOf("tokens", true) / (COUNT / 2),
        unit: "",
        target: 1,
      },
      { what: "modules whose hooks have a user id of their own", value: meanOf("isolated", true), unit: "" },
    ];
  },
};

/** Every second module has a hook. */
async function converge(bench, hasAccounts) {
  const namespace = await bench.namespace();
  const names = Array.from({ length: COUNT }, (_, index) => nameOf(index + 1));
  // A release with an account must be outside the operator's namespace.
  const team = await bench.namespace();
  if (hasAccounts) await makeAccounts(bench.api, team, names);
  const files = (name) => ({
    ...(names.indexOf(name) % 2 === 0 ? { "hooks/none.sh": shHook("beforeHelm", "exit 0") } : {}),
    ...(hasAccounts ? { "addon.yaml": `namespace: ${team}\nserviceAccountName: ${name}\n` } : {}),
  });
  const modulesDir = writeModules(bench.dir(), COUNT, { files });
  const args = [`--tmp-dir=${bench.dir()}/tmp`, "--service-account-namespaces=*"];
  const { operator, readyMs } = await bench.start({ namespace, modulesDir, args });
  const ms = await readyMs();
  const cpuMs = bench.cpuMs(operator);
  const { status, body } = await operator.http("/metrics");
  if (status !== 200) throw new Error(`/metrics answered ${status}`);
  const counts = [...body.matchAll(/_count\{[^\n]*serviceaccounts\/\{name\}\/token"[^\n]*\} (\d+)/g)];
  const path = `/apis/addon-operator.io/v1alpha1/namespaces/${namespace}/addonmodules`;
  const { items } = await bench.api.get(path);
  const isolated = items.filter(({ status }) => status?.identity?.hooksIsolated === true).length;
  await operator.stop();
  return {
    hasAccounts,
    ms,
    cpuMs,
    tokens: counts.reduce((sum, [, count]) => sum + Number(count), 0),
    isolated,
  };
}

/** One account for each module, all of which may change everything in the namespace. */
async function makeAccounts(api, namespace, names) {
  const rbac = `/apis/${GROUP}/v1/namespaces/${namespace}`;
  const rules = [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }];
  await api.send("POST", `${rbac}/roles`, { metadata: { name: "bench" }, rules });
  const subjects = names.map((name) => ({ kind: "ServiceAccount", name, namespace }));
  const roleRef = { apiGroup: GROUP, kind: "Role", name: "bench" };
  await api.send("POST", `${rbac}/rolebindings`, { metadata: { name: "bench" }, roleRef, subjects });
  for (const name of names)
    await api.send("POST", `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
}
