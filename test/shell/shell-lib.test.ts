import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { Json } from "../../src/model/index.ts";
import { run } from "../../src/process/index.ts";

const LIBRARY = fileURLToPath(new URL("../../shell/shell_lib.sh", import.meta.url));

let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "shell-lib-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Runs a hook made of these functions on these contexts: its output lines, its exit code and its stderr. */
async function hook(
  body: string,
  contexts: Json,
  args: readonly string[] = [],
): Promise<{ lines: string[]; code: number | undefined; stderr: string }> {
  const file = join(dir, "hook.sh");
  const contextFile = join(dir, "context.json");
  const head = '#!/usr/bin/env bash\nsource "${SHELL_LIB_PATH:-/shell_lib.sh}"\n';
  await writeFile(file, `${head}${body}\nhook::run "$@"\n`);
  await chmod(file, 0o755);
  await writeFile(contextFile, `${JSON.stringify(contexts)}\n`);
  const env = { PATH: process.env["PATH"] ?? "", SHELL_LIB_PATH: LIBRARY, BINDING_CONTEXT_PATH: contextFile };
  const result = await run({ file, args, cwd: dir, env, timeoutMs: 15_000 });
  return { lines: result.stdout.split("\n").filter(Boolean), code: result.exitCode, stderr: result.stderr };
}

function say(...names: string[]): string {
  return names.map((name) => `${name}() { echo "${name}"; }`).join("\n");
}

const POD = { kind: "Pod", metadata: { name: "web", labels: { a: "1" } } };

describe("hook::run", () => {
  test("--config calls __config__ and reads no context", async () => {
    const got = await hook(
      "__config__() { echo 'configVersion: v1'; }\n__main__() { echo no; }",
      [],
      ["--config"],
    );
    expect(got).toMatchObject({ lines: ["configVersion: v1"], code: 0 });
  });

  test("--config without __config__ fails and says why", async () => {
    expect(await hook("", [], ["--config"])).toMatchObject({
      code: 1,
      stderr: "the hook defines no function __config__\n",
    });
  });

  const kubernetes = { binding: "pods" };
  test.each([
    [{ binding: "onStartup" }, ["__on_startup", "__main__"]],
    [{ binding: "beforeAll", snapshots: {} }, ["__on_before_all", "__main__"]],
    [{ binding: "afterAll", snapshots: {} }, ["__on_after_all", "__main__"]],
    [{ binding: "beforeHelm", snapshots: {} }, ["__on_before_helm", "__main__"]],
    [{ binding: "afterHelm", snapshots: {} }, ["__on_after_helm", "__main__"]],
    [{ binding: "beforeDeleteHelm", snapshots: {} }, ["__on_before_delete_helm", "__main__"]],
    [{ binding: "afterDeleteHelm", snapshots: {} }, ["__on_after_delete_helm", "__main__"]],
    [{ binding: "each-5", type: "Schedule" }, ["__on_schedule::each-5", "__main__"]],
    [
      { ...kubernetes, type: "Synchronization", objects: [] },
      ["__on_kubernetes::pods::synchronization", "__on_kubernetes::pods", "__main__"],
    ],
    [
      { ...kubernetes, type: "Event", watchEvent: "Added", object: POD },
      [
        "__on_kubernetes::pods::added",
        "__on_kubernetes::pods::added_or_modified",
        "__on_kubernetes::pods",
        "__main__",
      ],
    ],
    [
      { ...kubernetes, type: "Event", watchEvent: "Modified", object: POD },
      [
        "__on_kubernetes::pods::modified",
        "__on_kubernetes::pods::added_or_modified",
        "__on_kubernetes::pods",
        "__main__",
      ],
    ],
    [
      { ...kubernetes, type: "Event", watchEvent: "Deleted", object: POD },
      ["__on_kubernetes::pods::deleted", "__on_kubernetes::pods", "__main__"],
    ],
    [{ ...kubernetes, type: "Group", groupName: "all", snapshots: {} }, ["__on_group::all", "__main__"]],
  ])("%j calls the first function there is of %j", async (context, functions) => {
    for (let from = 0; from < functions.length; from++) {
      const defined = functions.slice(from);
      expect(await hook(say(...defined), [context])).toMatchObject({ lines: [defined[0]], code: 0 });
    }
    const none = await hook(say("other"), [context]);
    expect(none).toMatchObject({ lines: [], code: 1 });
    expect(none.stderr).toBe(
      `the hook defines none of the functions for binding '${context.binding}': ${functions.join(" ")}\n`,
    );
  });

  test("a name that no function can have goes to __main__", async () => {
    const got = await hook(say("__main__"), [{ binding: "Monitor my pods", type: "Schedule" }]);
    expect(got).toMatchObject({ lines: ["__main__"], code: 0 });
  });

  test("contexts are handled in order, each function told which one it has", async () => {
    const body = `
__on_schedule::tick() { echo "schedule $BINDING_CONTEXT_CURRENT_INDEX $BINDING_CONTEXT_CURRENT_BINDING"; }
__on_kubernetes::pods() { echo "pods $BINDING_CONTEXT_CURRENT_INDEX $(context::get object.metadata.name)"; }`;
    const got = await hook(body, [
      { binding: "pods", type: "Event", watchEvent: "Added", object: POD },
      { binding: "tick", type: "Schedule" },
      { binding: "pods", type: "Event", watchEvent: "Deleted", object: { metadata: { name: "db" } } },
    ]);
    expect(got).toMatchObject({ lines: ["pods 0 web", "schedule 1 tick", "pods 2 db"], code: 0 });
  });

  test("a command that fails ends the hook with its exit code; later contexts are not handled", async () => {
    const body = '__main__() { echo "at $BINDING_CONTEXT_CURRENT_INDEX"; (exit 7); echo never; }';
    expect(await hook(body, [{ binding: "onStartup" }, { binding: "onStartup" }])).toMatchObject({
      lines: ["at 0"],
      code: 7,
    });
  });

  test("a failure within a pipe or a substitution ends it too", async () => {
    expect(await hook("__main__() { false | cat; echo never; }", [{ binding: "x" }])).toMatchObject({
      lines: [],
      code: 1,
    });
    expect(await hook('__main__() { x="$(false; echo x)"; echo never; }', [{ binding: "x" }])).toMatchObject({
      lines: [],
      code: 1,
    });
  });

  test("functions that read stdin do not swallow contexts", async () => {
    const got = await hook("__main__() { cat; echo one; }", [{ binding: "x" }, { binding: "y" }]);
    expect(got.lines).toEqual(["one", "one"]);
  });

  test("an unreadable context file fails the hook", async () => {
    expect((await hook("BINDING_CONTEXT_PATH=/nonexistent\n__main__() { :; }", [])).code).not.toBe(0);
  });

  test("hooks that forbid unset variables are fine with it", async () => {
    const got = await hook("set -u\n__main__() { context::get binding; }", [{ binding: "x" }]);
    expect(got).toMatchObject({ lines: ["x"], code: 0 });
  });

  test("nothing to do without contexts", async () => {
    expect(await hook("set -u", [])).toMatchObject({ lines: [], code: 0 });
  });
});

describe("context::*", () => {
  const context = {
    binding: "x",
    yes: true,
    no: false,
    text: "true",
    nothing: null,
    n: 5,
    list: [{ name: "a b" }],
    map: { "my-key": { deep: "v" } },
  };

  test.each([
    ["context::get n", ["5"]],
    ["context::get .text", ["true"]],
    ["context::get list[0].name", ["a b"]],
    ["context::get 'map[\"my-key\"].deep'", ["v"]],
    ["context::get map", ['{"my-key":{"deep":"v"}}']],
    ["context::get absent.deeper", ["null"]],
    ["context::jq -r --arg k n '.[$k]'", ["5"]],
    ["context::jq -c '.list[]'", ['{"name":"a b"}']],
    ["context::global::jq -r 'length'", ["1"]],
    ["context::has n && echo yes", ["yes"]],
    ["context::has nothing && echo yes", ["yes"]],
    ["context::has list[0] && echo yes", ["yes"]],
    ["context::has 'map[\"my-key\"].deep' && echo yes", ["yes"]],
    ["context::has list[1] || echo no", ["no"]],
    ["context::has absent || echo no", ["no"]],
    ["context::has absent.deeper || echo no", ["no"]],
    ["context::has n.deeper || echo no", ["no"]],
    ["context::is_true yes && echo yes", ["yes"]],
    ["context::is_true text && echo yes", ["yes"]],
    ["context::is_true no || echo no", ["no"]],
    ["context::is_true n || echo no", ["no"]],
    ["context::is_true absent || echo no", ["no"]],
    ["context::is_true n.deeper || echo no", ["no"]],
    ["context::is_false no && echo yes", ["yes"]],
    ["context::is_false absent || echo no", ["no"]],
  ])("%s", async (command, lines) => {
    expect(await hook(`__main__() { ${command}; }`, [context])).toEqual({ lines, code: 0, stderr: "" });
  });
});
