import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { findCandidates } from "../../../../src/main/commands/operator/completion.ts";
import { COMPLETED, VISIBLE_COMMANDS } from "../../../../src/main/commands/table/commands.ts";
import { FakeApi } from "../../../support/fake-api.ts";
import { answeringSocket } from "../../../support/answering-socket.ts";
import { run } from "../../../support/command-line.ts";
import { ailingOverview } from "../../../support/overviews.ts";

const NAMES = {
  module: ["web", "web-shop", "db"],
  addonmodule: ["web-of-cluster"],
  source: ["platform"],
  update: ["cert-manager"],
};

const complete = (line: string) =>
  findCandidates(line.split(" "), COMPLETED, (kind) => Promise.resolve(NAMES[kind]));

it.each([
  ["st", ["start", "status"]],
  ["w", ["wait", "why"]],
  ["--ver", ["--version"]],
  ["help mod", ["module"]],
  ["help module ren", ["render"]],
  ["help ver", ["version"]],
  ["module re", ["render", "resource-monitor"]],
  ["module why we", ["web", "web-shop"]],
  ["why we", ["web", "web-shop"]],
  ["why -o ", ["json", "text", "yaml"]],
  ["module why -o json we", ["web", "web-shop"]],
  ["module -o json why we", ["web", "web-shop"]],
  ["module rollback d", ["db"]],
  ["--ha why d", ["db"]],
  ["--ha true why d", ["db"]],
  ["--log-level debug why d", ["db"]],
  ["addon why ", ["web-of-cluster"]],
  ["addon wait -n ops --for healthy ", ["web-of-cluster"]],
  ["source sync ", ["platform"]],
  ["source approve ", ["cert-manager"]],
  ["source approve cert-manager ", []],
  ["new hook w", ["web", "web-shop"]],
  ["config set ", ["log.level"]],
  ["config set log.level ", ["debug", "error", "info", "warn"]],
  ["queue ", ["list", "main"]],
  ["queue -o j", ["json"]],
  ["queue --out", ["--output"]],
  ["version -o ", ["json", "text"]],
  ["source list -o ", ["json", "text"]],
  ["source list -n ", []],
  ["source list -o=j", ["-o=json"]],
  ["module values -g ", ["db", "web", "web-shop"]],
  ["logs d", ["db"]],
  ["wait web ", []],
  ["wait web --for ", ["healthy", "ready"]],
  ["module graph -o m", ["mermaid"]],
  ["module values web --ex", ["--explain"]],
  ["wait --listen-p", ["--listen-port"]],
  ["completion ", ["bash", "fish", "zsh"]],
  ["new module ", []],
  ["lint ", []],
  ["nonsense ", []],
  ["toString ", []],
  ["start --drift ", ["off", "repair", "warn"]],
  ["start --drift=r", ["--drift=repair"]],
  ["start --drift = r", ["repair"]],
  ["start --module-queues = ", ["main", "own"]],
  ["start --ha=", ["--ha=false", "--ha=true"]],
  ["start --ha ", ["false", "true"]],
  ["start --ha --drif", ["--drift"]],
  ["status -", ["--help", "--output", "--watch"]],
])("behind %j may stand %j", async (line, expected) => {
  expect(await complete(line)).toEqual(expected);
});

it("offers the commands for an empty line, also by the program", async () => {
  const { text } = await run(["__complete", "--", ""]);
  expect(text.split("\n")).toEqual(expect.arrayContaining(["module", "start", "status"]));
});

it("names no command that is for programs alone", async () => {
  expect(await complete("")).not.toContain("__complete");
});

it("fetches names from the running operator, and offers none without it", async () => {
  const { setting, socket } = await answeringSocket(() => JSON.stringify(ailingOverview()));
  const ask = (at: string) => run(["__complete", at, "--", "module", "why", ""]);
  expect(await ask(setting)).toEqual({ code: 0, text: "cache\ndb\nshop\nweb\n" });
  expect(await ask(`--debug-unix-socket=${socket}.none`)).toEqual({ code: 0, text: "" });
});

it("knows where the name of a module or a ModuleSource stands", () => {
  const args = VISIBLE_COMMANDS.filter(({ args = "" }) => /\b(NAME|MODULE)\b/.test(args));
  const without = args.filter(({ offers }) => offers === undefined).map(({ words }) => words);
  expect(without).toEqual(["new module"]);
});

it("fetches names from the cluster that the line selects, and offers none without it", async () => {
  const api = await FakeApi.start();
  onTestFinished(() => api.close());
  const list = (...items: readonly object[]) => ({ json: { metadata: {}, items } });
  const group = "/apis/addon-operator.io/v1alpha1";
  const operator = { metadata: { name: "addon-operator", namespace: "ops", uid: "u" } };
  const source = {
    metadata: { name: "platform", namespace: "ops" },
    spec: {},
    status: { modules: [{ name: "web", next: { version: "2.0.0" } }, { name: "db" }] },
  };
  api.on(`GET ${group}/namespaces/ops/addonoperators`, list(operator));
  api.on(`GET ${group}/namespaces/ops/modulesources`, list(source));
  api.on(
    `GET ${group}/namespaces/ops/addonmodules`,
    list({ metadata: { name: "web" } }, { metadata: { name: "x y" } }),
  );
  const ask = async (...words: string[]) =>
    (await run(["__complete", `--kube-config=${api.kubeconfig()}`, "--", ...words])).text;
  expect(await ask("addon", "why", "-n", "ops", "")).toBe("web\n");
  expect(await ask("source", "sync", "-n", "ops", "")).toBe("platform\n");
  expect(await ask("source", "approve", "-n", "ops", "")).toBe("web\n");
  expect(await ask("source", "sync", "-n", "other", "")).toBe("");
});

it("bash completes through the program", async () => {
  const dir = mkdtempSync(join(tmpdir(), "completion-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const program = join(dir, "addon-operator");
  writeFileSync(program, `#!/bin/sh\nfor word; do echo "<$word>"; done\n`);
  chmodSync(program, 0o755);
  const { text } = await run(["completion", "bash"]);
  const line = `COMP_WORDS=(${program} module why "we b" more); COMP_CWORD=3; _addon_operator; printf '%s|' "\${COMPREPLY[@]}"`;
  expect(execFileSync("bash", ["-c", `${text}${line}`], { encoding: "utf8" })).toBe(
    "<__complete>|<-->|<module>|<why>|<we b>|",
  );
});

/** A program that knows the names of modules alone, and the directory that it is in, with a file. */
async function place(shell: string): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "completion-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const program = `#!/bin/sh
case "$*" in
  "__complete -- module why we") printf 'web-a\\nweb-shop\\n' ;;
  "__complete -- stat") printf 'status\\n' ;;
  "__complete -- wait web --for=h") printf -- '--for=healthy\\n' ;;
  "__complete -- ") printf 'why\\n' ;;
esac
`;
  writeFileSync(join(dir, "addon-operator"), program, { mode: 0o755 });
  for (const file of ["a-file", "we-file"]) writeFileSync(join(dir, file), "");
  writeFileSync(join(dir, "script"), (await run(["completion", shell])).text);
  return dir;
}

function shellIn(dir: string, shell: string, script: string): string {
  const env = { PATH: `${dir}:${process.env["PATH"] ?? ""}`, HOME: dir, XDG_CONFIG_HOME: dir, TERM: "dumb" };
  return execFileSync(shell, ["-c", script], { encoding: "utf8", cwd: dir, env, timeout: 60_000 });
}

const isThere = (shell: string): boolean => spawnSync(shell, ["-c", "true"]).status === 0;
const named = (shell: string): string =>
  isThere(shell) ? shell : `${shell}, which is not on the PATH: skipped`;

it.runIf(isThere("fish"))(`completes in ${named("fish")}`, async () => {
  const dir = await place("fish");
  const behind = (line: string) =>
    shellIn(dir, "fish", `source script; complete -C "addon-operator ${line}"`);
  expect(behind("module why we")).toBe("web-a\nweb-shop\n");
  expect(behind("stat")).toBe("status\n");
  expect(behind("")).toBe("why\n");
  expect(behind("wait web --for=h")).toBe("--for=healthy\n");
  expect(behind("lint a-")).toBe("a-file\n");
});

it.runIf(isThere("zsh"))(`completes in ${named("zsh")}`, async () => {
  const dir = await place("zsh");
  const reported = shellIn(
    dir,
    "zsh",
    `zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z 'autoload -Uz compinit; compinit -u -d dump; source script; PS1=; echo REA""DY'; zpty -r z out '*READY*'
zpty -w -n z $'addon-operator module why we\t'; zpty -r z out '*why web-*'; print -r -- "$out"
zpty -w -n z $'\x15addon-operator stat\t'; zpty -r z out '*status*'; print -r -- "$out"
zpty -w -n z $'\x15addon-operator wait web --for=h\t'; zpty -r z out '*--for=healthy*'; print -r -- "$out"
zpty -w -n z $'\x15addon-operator lint a-\t'; zpty -r z out '*a-file*'; print -r -- "$out"; zpty -d z`,
  );
  expect(reported).toMatch(/why web-[^]*operator status[^]*--for=healthy[^]*lint a-file/);
});

it("knows no other shell", async () => {
  await expect(run(["completion", "tcsh"])).rejects.toThrow(/"tcsh" is not accepted; use bash, zsh or fish/);
});
