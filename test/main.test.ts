import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { programFile } from "../scripts/operator.mjs";
import { tools } from "../scripts/setup/tools.mjs";
import { UsageError } from "../src/config/settings/config.ts";
import { serveSocket } from "../src/surface/debug/index.ts";
import { parseYaml } from "../src/base/index.ts";
import { RELEASE } from "../src/config/settings/version.ts";
import { runOffline } from "./support/command-line.ts";

let root: string;

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const env = (): Record<string, string | undefined> => ({
  PATH: process.env["PATH"],
  HELM_BIN_PATH: tools().helm,
  ADDON_OPERATOR_TMP_DIR: join(root, "tmp"),
});

/** The program as a process: slow to start, so only what needs one. */
function program(...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { env: { ...env(), NODE_NO_WARNINGS: "1" }, cwd: root };
    execFile(process.execPath, [programFile(), ...args], options, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr }),
    );
  });
}

const hookRun = (...args: string[]) => runOffline("hook", ["run", ...args], env());
const lint = (...args: string[]) => runOffline("lint", args, env());

function put(path: string, text: string, mode = 0o644): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "main-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

describe("usage", () => {
  it("prints help and version", async () => {
    const help = await program("--help");
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toMatch(/Settings \(flag > environment > default\)/);
    const { stdout } = await program("--version");
    expect(stdout).toMatch(new RegExp(`^addon-operator ${RELEASE}(-dev(\\+\\w+(-dirty)?)?)?\\n$`));
  });

  it("exits with 2 for wrong usage", async () => {
    const ended = await program("nonsense");
    expect(ended).toMatchObject({ code: 2, stdout: "" });
    expect(ended.stderr).toMatch(/"nonsense" is not a sub-command/);
  });

  it("names the Node that it needs to one that is too old", async () => {
    const older = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.0" } });`;
    const [node, ...args] = [
      process.execPath,
      "--import",
      `data:text/javascript,${older}`,
      programFile(),
      "--help",
    ];
    const failure: unknown = await promisify(execFile)(node, args).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: 2,
      stdout: "",
      stderr: "addon-operator needs Node 24 or later; this is Node 20.19.0\n",
    });
  });

  it("says how the offline commands are used", async () => {
    const missing = async (...args: string[]) => hookRun(...args);
    await expect(missing("x")).rejects.toThrow(/usage: addon-operator hook run PATH \(--context FILE/);
    await expect(missing("x", "--context")).rejects.toThrow(/--context: needs a value/);
    await expect((async () => lint())()).rejects.toThrow(UsageError);
  });

  it("finds the socket of an operator that has it among its temporary files, as in a Pod", async () => {
    const at = join(root, "tmp", "debug.socket");
    const sources = {
      state: { globalHooks: [{ name: "00-a" }] },
      secrets: { redactDeep: (it: unknown) => it },
    };
    const server = await serveSocket(at, sources as unknown as Parameters<typeof serveSocket>[1]);
    onTestFinished(() => server.close());
    const listed = await program("global", "list");
    expect(listed).toEqual({ code: 0, stdout: "globalHooks:\n  - 00-a\n", stderr: "" });
  });

  it("logs on stdout", async () => {
    const ended = await program("start", `--kube-config=${join(root, "none")}`, "--log-type=text");
    expect(ended).toMatchObject({ code: 1, stderr: "" });
    expect(ended.stdout).toMatch(/ERROR .*none/);
  });

  it("says that no operator listens, and fails", async () => {
    const ended = await program("queue", "list", `--debug-unix-socket=${join(root, "none")}`);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/^no operator listens on .* set --debug-unix-socket\. .*\n$/);
  });
});

const HOOK = `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit 0; fi
test -f "$SHELL_LIB_PATH" || exit 3
grep -q '"size":7' "$VALUES_PATH" || exit 4
grep -q '"size":6' "$CONFIG_VALUES_PATH" || exit 6
grep -q beforeHelm "$BINDING_CONTEXT_PATH" || exit 5
echo '{"op": "add", "path": "/web/host", "value": "a"}' >"$VALUES_JSON_PATCH_PATH"
echo '{"operation": "Delete", "kind": "Pod", "namespace": "n", "name": "p"}' >"$KUBERNETES_PATCH_PATH"
echo '{"name": "m", "set": 1}' >"$METRICS_PATH"
`;

/** A hook that answers `--config` with `config`, and does `work` when it runs. */
const scriptOf = (work: string, config = '{"configVersion": "v1", "onStartup": 1}'): string =>
  `#!/bin/sh\nif [ "$1" = --config ]; then echo '${config}'; exit 0; fi\n${work}\n`;

describe("hook run", () => {
  it("prints what a hook would change", async () => {
    const hook = put("010-web/hooks/one", HOOK, 0o755);
    const context = put("context.json", '[{"binding": "beforeHelm"}]');
    const values = put("values.yaml", "web: {size: 7}\n");
    const config = put("config.yaml", "web: {size: 6}\n");
    const files = ["--context", context, `--values=${values}`, "--config-values", config];
    const ended = await hookRun(hook, ...files);
    expect(ended).toMatchObject({ code: 0 });
    expect(parseYaml(ended.text, "stdout").value).toMatchObject({
      configValuesPatch: [],
      valuesPatch: [{ op: "add", path: "/web/host", value: "a" }],
      objects: [{ operation: "Delete", target: { kind: "Pod", namespace: "n", name: "p" } }],
      metrics: [{ name: "m", action: "set", value: 1 }],
    });
  });

  it("runs one hook of a batch file", async () => {
    const hook = put(
      "010-web/hooks/batch",
      scriptOf(`echo "$*" "$MODULE_NAME" >"${join(root, "given")}"`),
      0o755,
    );
    const context = put("context.json", "[]");
    expect(await hookRun(hook, "--context", context, "--item", "7")).toMatchObject({ code: 0 });
    expect(readFileSync(join(root, "given"), "utf8")).toBe("hook run 7 web\n");
    await hookRun(hook, "--context", context, "--item", "ready");
    expect(readFileSync(join(root, "given"), "utf8")).toBe("hook ready web\n");
    await expect(hookRun(hook, "--context", context, "--item", "x")).rejects.toThrow(
      '--item: "x" is neither a number nor ready',
    );
  });

  it("waits for a hook that closes its output", async () => {
    const hook = put("010-web/hooks/silent", scriptOf("exec >&- 2>&-\nsleep 0.3\nexit 3"), 0o755);
    const ended = await program("hook", "run", hook, "--context", put("context.json", "[]"));
    expect(ended).toEqual({ code: 1, stdout: "failure: exit code 3\n", stderr: "" });
  });

  it("gives a hook one context of its own, and passes its lines on to stderr", async () => {
    const script = scriptOf(`cp "$BINDING_CONTEXT_PATH" "${join(root, "given")}"\necho a line`);
    const hook = put("010-web/hooks/one", script, 0o755);
    const ended = await program(
      "hook",
      "run",
      hook,
      "--context",
      put("one.json", '{"binding": "onStartup"}'),
    );
    expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining("a line") });
    expect(ended.stdout).not.toContain("a line");
    expect(JSON.parse(readFileSync(join(root, "given"), "utf8"))).toEqual([{ binding: "onStartup" }]);
  });

  it("gives a hook no way to the cluster of the user's shell", async () => {
    const script = scriptOf(
      `echo "$KUBECONFIG|$KUBE_CONFIG|$KUBERNETES_SERVICE_HOST" >"${join(root, "given")}"`,
    );
    const hook = put("hooks/one", script, 0o755);
    const cluster = {
      KUBECONFIG: "/home/me/.kube/config",
      KUBE_CONFIG: "/home/me/.kube/config",
      KUBERNETES_SERVICE_HOST: "10.0.0.1",
    };
    await runOffline("hook", ["run", hook, "--context", put("context.json", "[]")], { ...env(), ...cluster });
    expect(readFileSync(join(root, "given"), "utf8")).toBe("/dev/null|/dev/null|\n");
  });

  it("refuses a context of a binding that the hook does not have", async () => {
    const config = { configVersion: "v1", onStartup: 1, schedule: [{ name: "tick", crontab: "* * * * *" }] };
    const hook = put("hooks/one", scriptOf("exit 0", JSON.stringify(config)), 0o755);
    const play = (text: string) => hookRun(hook, "--context", put("context.json", text));
    expect(await play('[{"binding": "tick"}, {"binding": "nope"}]')).toEqual({
      code: 1,
      text: `failure: 'the context file names the binding "nope"; the hook has: onStartup, tick'\n`,
    });
    expect(await play('[{"binding": "tick"}, {"binding": "onStartup"}, {}]')).toMatchObject({ code: 0 });
  });

  it("holds a hook that lies below no module to the rules of global hooks", async () => {
    const text = scriptOf(`echo '{"op": "add", "path": "/global/x", "value": 1}' >"$VALUES_JSON_PATCH_PATH"`);
    const context = put("context.json", "[]");
    expect((await hookRun(put("hooks/one", text, 0o755), "--context", context)).code).toBe(0);
    expect((await hookRun(put("010-web/hooks/one", text, 0o755), "--context", context)).code).toBe(1);
  });

  it("shows what a hook prints as it is", async () => {
    const hook = put("hooks/tells", scriptOf("echo password=hunter2 >&2\nexit 1"), 0o755);
    const ended = await hookRun(hook, "--context", put("context.json", "[]"));
    expect(ended).toMatchObject({ code: 1, text: expect.stringContaining("password=hunter2") });
  });

  it("fails with the hook, and with patches it may not leave", async () => {
    const context = put("context.json", "[]");
    const bad = put("010-web/hooks/bad", scriptOf("exit 9"), 0o755);
    const ended = await hookRun(bad, "--context", context);
    expect(ended.code).toBe(1);
    expect(ended.text).toMatch(/^failure: .*9/);
    const text = scriptOf(`echo '{"op": "add", "path": "/other/x", "value": 1}' >"$VALUES_JSON_PATCH_PATH"`);
    const foreign = put("010-web/hooks/foreign", text, 0o755);
    expect(await hookRun(foreign, "--context", context)).toMatchObject({ code: 1 });
  });

  it("refuses a hook whose configuration the operator refuses", async () => {
    const context = put("context.json", "[]");
    const bad = put("010-web/hooks/bad", scriptOf("exit 0", '{"configVersion": "v7"}'), 0o755);
    expect(await hookRun(bad, "--context", context)).toEqual({
      code: 1,
      text: expect.stringMatching(/^failure: .*hooks\/bad: .*v7/),
    });
  });

  it("checks values and patches against the schemas of the module", async () => {
    put("010-web/openapi/config-values.yaml", "required: [host]\nproperties: {host: {type: string}}\n");
    const extended =
      "x-extend: {schema: config-values.yaml}\nproperties: {size: {type: integer, default: 3}}\n";
    put("010-web/openapi/values.yaml", extended);
    const context = put("context.json", "[]");
    const values = put("given.yaml", "web: {host: a}\n");
    const leaving = (value: string, to = "VALUES_JSON_PATCH_PATH"): string =>
      put(
        "010-web/hooks/one",
        scriptOf(
          `grep -q '"size":3' "$VALUES_PATH" || exit 4\necho '{"op": "add", "path": "/web/size", "value": ${value}}' >"$${to}"`,
        ),
        0o755,
      );
    const given = ["--context", context, "--values", values];
    expect(await hookRun(leaving("5"), ...given)).toMatchObject({ code: 0 });
    expect(await hookRun(leaving('"big"'), ...given)).toEqual({
      code: 1,
      text: "failure: 'values patch makes web invalid: /size: must be integer'\n",
    });
    expect(await hookRun(leaving("5", "CONFIG_VALUES_JSON_PATCH_PATH"), ...given)).toEqual({
      code: 1,
      text: expect.stringContaining("config values patch makes web invalid: /size: is not declared"),
    });
    await expect(hookRun(leaving("5"), "--context", context)).rejects.toThrow(
      "missing property `host`: set web.host in --config-values FILE, key web",
    );
    const config = put("config.yaml", "web: {host: 1}\n");
    const wrong = hookRun(leaving("5"), "--context", context, "--config-values", config);
    await expect(wrong).rejects.toThrow(/web\/host: must be string/);
  });

  it("checks what a global hook leaves against the global schemas", async () => {
    put("global/openapi/values.yaml", "properties: {size: {type: integer}}\n");
    const left = `echo '{"op": "add", "path": "/global/size", "value": "big"}' >"$VALUES_JSON_PATCH_PATH"`;
    const hook = put("global/hooks/one", scriptOf(left), 0o755);
    expect(await hookRun(hook, "--context", put("context.json", "[]"))).toEqual({
      code: 1,
      text: "failure: 'values patch makes global invalid: /size: must be integer'\n",
    });
  });

  it("names the file that cannot be read", async () => {
    const ended = hookRun("x", "--context", "missing.json");
    await expect(ended).rejects.toThrow(/^missing\.json: cannot be read/);
  });
});

const BINDINGS = `#!/bin/sh
cat <<'YAML'
configVersion: v1
schedule:
- crontab: "61 * * * *"
YAML
`;

const FILTER = `#!/bin/sh
cat <<'YAML'
configVersion: v1
kubernetes:
- kind: Pod
  jqFilter: ".a | ("
YAML
`;

describe("lint", () => {
  it("is content with what is right", async () => {
    put("modules/010-web/values.yaml", "web: {a: 1}\nwebEnabled: true\n");
    put("modules/010-web/hooks/one", HOOK, 0o755);
    expect(await lint(join(root, "modules"))).toEqual({ code: 0, text: "" });
  });

  it("finds broken files, schemas, crontabs and filters, with their lines", async () => {
    put("modules/010-web/values.yaml", "web:\n  a: [1\n");
    put("modules/020-shop/openapi/values.yaml", "type: objekt\n");
    put("modules/030-hook/hooks/bad", BINDINGS, 0o755);
    put("modules/040-jq/hooks/bad", FILTER, 0o755);
    put("global/hooks/fails", "#!/bin/sh\nexit 1\n", 0o755);
    const ended = await lint(join(root, "modules"), join(root, "global"));
    expect(ended.code).toBe(1);
    const lines = ended.text.split("\n");
    const about = (file: string): string => lines.filter((line) => line.includes(file)).join("\n");
    expect(about("010-web/values.yaml")).toMatch(/line \d/);
    expect(about("020-shop/openapi/values.yaml")).toMatch(/type/);
    expect(about("030-hook/hooks/bad")).toMatch(/line \d+: .*crontab/);
    expect(about("040-jq/hooks/bad")).toMatch(/line \d+: .*jqFilter|--config: .*jqFilter/);
    expect(about("global/hooks/fails")).toMatch(/the hook failed: .*1/);
  });

  it("looks at single modules, by their number or their chart", async () => {
    put("modules/010-web/values.yaml", "web:\n  a: [1\n");
    put("charts/shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
    put("charts/shop/values.yaml", "shop: [\n");
    put("modules/020-more/values.yaml", "more: [\n");
    const { code, text } = await lint(join(root, "modules/010-web"), join(root, "charts/shop"));
    expect(code).toBe(1);
    expect(text).toMatch(/010-web\/values\.yaml/);
    expect(text).toMatch(/charts\/shop\/values\.yaml/);
    expect(text).not.toContain("020-more");
  });

  it("warns of a module.yaml that contains settings of addon.yaml, and takes one of Deckhouse's", async () => {
    put("modules/values.yaml", "");
    put("modules/010-web/module.yaml", "name: web\nweight: 10\nstage: Preview\n");
    expect(await lint(join(root, "modules"))).toEqual({ code: 0, text: "" });
    expect(await lint(join(root, "modules/010-web"))).toEqual({ code: 0, text: "" });
    put("modules/010-web/module.yaml", "helm: {wait: true}\n");
    const { code, text } = await lint(join(root, "modules"));
    const [old, now] = ["module.yaml", "addon.yaml"].map((name) => join(root, "modules/010-web", name));
    expect([code, text]).toEqual([0, expect.stringMatching(/^warning: .*: contains settings .*\n$/)]);
    expect(text).toContain(`${old}: contains settings`);
    expect(text).toContain(`git mv ${old} ${now}`);
  });

  it("warns of scripts that are not executable, says nothing of sources, and ends with 0", async () => {
    put("modules/values.yaml", "");
    put("modules/010-web/hooks/idle.sh", "#!/bin/sh\n");
    for (const source of ["go/main.go", "go.mod", "LICENSE", "README"])
      put(`modules/010-web/hooks/${source}`, "package main\n");
    const { code, text } = await lint(join(root, "modules"));
    expect([code, text]).toEqual([0, expect.stringMatching(/^warning: .*idle\.sh: is not executable.*\n$/)]);
  });

  it("looks at global hooks that lie in the directory itself, as the operator does", async () => {
    put("global-hooks/100-first.sh", "#!/bin/sh\necho 'beforeHelm: 1'\n", 0o755);
    put("global-hooks/net/200-second", "#!/bin/sh\necho 'configVersion: v2'\n", 0o755);
    put("global-hooks/idle.sh", "#!/bin/sh\n");
    put("global-hooks/lib/functions.sh", "exit 1\n");
    put("global-hooks/openapi/values.yaml", "type: object\nproperties: {a: {type: string}}\n");
    const { code, text } = await lint(join(root, "global-hooks"));
    const lines = text.split("\n");
    expect([code, lines]).toEqual([
      1,
      [
        expect.stringMatching(/100-first\.sh: .*beforeHelm is not allowed in a global hook/),
        expect.stringMatching(/net\/200-second: .*configVersion/),
        expect.stringMatching(/^warning: .*idle\.sh: is not executable/),
        "",
      ],
    ]);
  });

  it("takes a modules directory with scripts beside its modules for one", async () => {
    put("modules/build.sh", "#!/bin/sh\nexit 1\n", 0o755);
    put("modules/web/values.yaml", "web: [\n");
    const { code, text } = await lint(join(root, "modules"));
    expect([code, text]).toEqual([1, expect.stringMatching(/^.*web\/values\.yaml: /)]);
  });

  it("says what a module's hooks need", async () => {
    const config = `configVersion: v1\nkubernetes:\n- {kind: Ingress, apiVersion: networking.k8s.io/v1}\n- {kind: widget, namespace: {labelSelector: {matchLabels: {a: b}}}}\n`;
    put("modules/010-web/hooks/one", `#!/bin/sh\ncat <<'YAML'\n${config}YAML\n`, 0o755);
    const crd = "spec: {group: example.io, names: {kind: Widget, plural: widgetry}}\n";
    put("modules/010-web/crds/widget.yaml", crd);
    put(
      "modules/010-web/addon.yaml",
      "requires: {objects: [{apiVersion: example.io/v1, kind: Gadget, name: a}]}\n",
    );
    const ended = await lint("--rbac", join(root, "modules"));
    expect(ended).toMatchObject({ code: 0 });
    const verbs = ["get", "list", "watch"];
    const rules = (parseYaml(ended.text, "stdout").value as { rules: unknown[] }).rules;
    expect(rules).toContainEqual({ apiGroups: ["networking.k8s.io"], resources: ["ingresses"], verbs });
    expect(rules).toContainEqual({ apiGroups: ["example.io"], resources: ["gadgets", "widgetry"], verbs });
    expect(rules).toContainEqual({ apiGroups: [""], resources: ["namespaces"], verbs });
    put("modules/010-web/addon.yaml", "helm: {wait: true}\n");
    const waiting = (await lint("--rbac", join(root, "modules"))).text;
    const { rules: more } = parseYaml(waiting, "stdout").value as { rules: unknown[] };
    expect(more).toContainEqual({ apiGroups: [""], resources: ["namespaces", "pods"], verbs });
    expect(more).toContainEqual({ apiGroups: ["apps"], resources: ["replicasets"], verbs });
  });

  it("says what a module's namespace needs", async () => {
    put("modules/010-web/addon.yaml", "namespace: team-a\nserviceAccountName: deployer\n");
    put("modules/010-web/templates/map.yaml", "");
    const { text } = await lint("--rbac", join(root, "modules"));
    const { rules } = parseYaml(text, "stdout").value as { rules: unknown[] };
    expect(rules).toContainEqual({ apiGroups: [""], resources: ["namespaces"], verbs: ["create", "get"] });
    const roles = await lint("--rbac", "--role", join(root, "modules"));
    expect(roles.text).toMatch(/kind: Role\nmetadata:\n {2}name: web-deployer\n {2}namespace: team-a\n/);
    expect(roles.text).toMatch(
      /subjects:\n {2}- kind: ServiceAccount\n {4}name: deployer\n {4}namespace: team-a/,
    );
  });
});
