import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { findCandidates } from "../../../src/commands/operator/completion.ts";
import { VISIBLE_COMMANDS } from "../../../src/commands/table/commands.ts";
import { answeringSocket } from "../../support/answering-socket.ts";
import { run } from "../../support/command-line.ts";
import { ailingOverview } from "../../support/overviews.ts";

const complete = (line: string) =>
  findCandidates(line.split(" "), VISIBLE_COMMANDS, () => Promise.resolve(["web", "web-shop", "db"]));

it.each([
  ["st", ["start", "status"]],
  ["module re", ["render", "resource-monitor"]],
  ["module why we", ["web", "web-shop"]],
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
  const program = `#!/bin/sh\n[ "$*" = "__complete -- module why we" ] && printf 'web-a\\nweb-shop\\n'\n`;
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
zpty -w -n z $'\x15addon-operator lint a-\t'; zpty -r z out '*a-file*'; print -r -- "$out"; zpty -d z`,
  );
  expect(reported).toMatch(/why web-[^]*lint a-file/);
});

it("knows no other shell", async () => {
  await expect(run(["completion", "tcsh"])).rejects.toThrow(/"tcsh" is not accepted; use bash, zsh or fish/);
});
