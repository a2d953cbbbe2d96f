// hook::run: which function handles a context, and what a function can do to the others.
import { describe, expect, test } from "vitest";

import { PATHS, shellHook } from "../support/shell-hook.ts";

const POD = { kind: "Pod", metadata: { name: "web", labels: { a: "1" } } };
const pods = { binding: "pods", type: "Event", object: POD };

/** The functions of each context, the best first; no function is in two rows, but __on_startup. */
const NAMES: readonly [context: { binding: string; [key: string]: unknown }, names: string[]][] = [
  [{ binding: "onStartup" }, ["__on_startup"]],
  [{ binding: "onStartup", type: "Schedule" }, ["__on_startup"]],
  [{ binding: "beforeAll", snapshots: {} }, ["__on_before_all"]],
  [{ binding: "afterAll", snapshots: {} }, ["__on_after_all"]],
  [{ binding: "beforeHelm", snapshots: {} }, ["__on_before_helm"]],
  [{ binding: "afterHelm", snapshots: {} }, ["__on_after_helm"]],
  [{ binding: "beforeDeleteHelm", snapshots: {} }, ["__on_before_delete_helm"]],
  [{ binding: "afterDeleteHelm", snapshots: {} }, ["__on_after_delete_helm"]],
  [{ binding: "each-5", type: "Schedule" }, ["__on_schedule::each-5"]],
  [{ binding: "a.b/c-d", type: "Schedule" }, ["__on_schedule::a.b/c-d"]],
  [
    { binding: "s", type: "Synchronization", objects: [] },
    ["__on_kubernetes::s::synchronization", "__on_kubernetes::s"],
  ],
  [
    { binding: "a", type: "Event", watchEvent: "Added", object: POD },
    ["__on_kubernetes::a::added", "__on_kubernetes::a::added_or_modified", "__on_kubernetes::a"],
  ],
  [
    { binding: "m", type: "Event", watchEvent: "Modified", object: POD },
    ["__on_kubernetes::m::modified", "__on_kubernetes::m::added_or_modified", "__on_kubernetes::m"],
  ],
  [
    { binding: "d", type: "Event", watchEvent: "Deleted", object: POD },
    ["__on_kubernetes::d::deleted", "__on_kubernetes::d"],
  ],
  [{ binding: "s", type: "Event", watchEvent: "Other" }, []],
  [{ binding: "s", type: "Other" }, []],
  [{ binding: "s", type: "Group", groupName: "all", snapshots: {} }, ["__on_group::all"]],
  [{ binding: "check", type: "Validating" }, ["__on_validating::check"]],
  [{ binding: "set", type: "Mutating" }, ["__on_mutating::set"]],
  [
    { binding: "v", type: "Conversion", fromVersion: "a.io/v1", toVersion: "a.io/v2" },
    ["__on_conversion::v::a.io.v1::a.io.v2", "__on_conversion::v"],
  ],
  [
    { binding: "w", type: "Conversion", fromVersion: "v1", toVersion: "a.io/v2/x" },
    ["__on_conversion::w::v1::a.io.v2/x", "__on_conversion::w"],
  ],
];

function define(...names: string[]): string {
  return names.map((name) => `${name}() { echo "${name}"; }`).join("\n");
}

describe.each(PATHS)("hook::run (PATH: %s)", (path) => {
  const hook = shellHook({ path });

  test("--config calls __config__, reads no context and ends the hook", async () => {
    const got = await hook(
      `__config__() { echo 'configVersion: v1'; }\n__main__() { echo no; }\nhook::run "$@"\necho behind`,
      [],
      ["--config"],
    );
    expect(got).toMatchObject({ lines: ["configVersion: v1"], code: 0 });
  });

  test.each([
    ["", 127, "ERROR: The hook defines no function __config__\n"],
    ["__config__() { return 4; }", 4, "Exiting with status 4\n"],
  ])("--config fails for %j with %i", async (body, code, message) => {
    const got = await hook(body, [], ["--config"]);
    expect(got).toMatchObject({ lines: [], code });
    expect(got.stderr).toMatch(new RegExp(`${message}$`));
  });

  test("--config as the second argument is a run", async () => {
    const got = await hook(define("__config__", "__main__"), [{ binding: "x" }], ["x", "--config"]);
    expect(got).toMatchObject({ lines: ["__main__"], code: 0 });
  });

  test("each context goes to the first function there is, then to __main__", async () => {
    const contexts = NAMES.map(([context]) => context);
    const defined = define(...new Set(NAMES.flatMap(([, names]) => names)), "__main__");
    const unset = (rank: number): string =>
      NAMES.map(([, names]) => `unset -f '${names[rank] ?? "_"}'`).join("\n");
    const got = await hook(
      `${defined}\nhook::run\n${unset(0)}\nhook::run\n${unset(1)}\nhook::run\n${unset(2)}`,
      contexts,
    );
    const called = [0, 1, 2, 3].flatMap((rank) => NAMES.map(([, names]) => names[rank] ?? "__main__"));
    expect(got).toMatchObject({ lines: called, code: 0, stderr: "" });
  });

  test("without any of them the hook fails and names them all", async () => {
    const got = await hook(define("other"), [{ ...pods, watchEvent: "Modified" }]);
    expect(got).toMatchObject({ lines: [], code: 1 });
    const names =
      "__on_kubernetes::pods::modified, __on_kubernetes::pods::added_or_modified, __on_kubernetes::pods, __main__";
    expect(got.stderr).toBe(`ERROR: Can't find any handler from the list: ${names}\n`);
  });

  test("a Group without groupName fails before any function", async () => {
    const got = await hook(define("__main__"), [{ binding: "pods", type: "Group" }]);
    expect(got).toMatchObject({ lines: [], code: 1 });
    expect(got.stderr).toContain("ERROR: The context of type Group for binding 'pods' has no groupName\n");
  });

  test.each([
    ["Monitor my pods", "__on_schedule::Monitor", ["__on_schedule::Monitor"]],
    ["Monitor my pods", "pods", ["pods"]],
    ["every true hour", "__main__", ["__main__"]],
    ["a test", "__main__", ["__main__"]],
    ["all * [a-z]", "__main__", ["__main__"]],
  ])("each word of the name %j can name a function of the hook: %s", async (binding, name, lines) => {
    expect(await hook(define(name), [{ binding, type: "Schedule" }])).toMatchObject({ lines, code: 0 });
  });

  test("contexts are handled in order; variables say which one", async () => {
    const body = `
__on_schedule::tick() { echo "schedule $BINDING_CONTEXT_CURRENT_INDEX $BINDING_CONTEXT_CURRENT_BINDING of $CONTEXT_LENGTH"; }
__on_kubernetes::pods() { echo "pods $BINDING_CONTEXT_CURRENT_INDEX $(context::get object.metadata.name)"; }
__main__() { bash -c 'echo "main $BINDING_CONTEXT_CURRENT_INDEX $BINDING_CONTEXT_CURRENT_BINDING"'; echo "$HANDLERS"; }`;
    const got = await hook(body, [
      { ...pods, watchEvent: "Added" },
      { binding: "tick", type: "Schedule" },
      { ...pods, watchEvent: "Deleted", object: { metadata: { name: "db" } } },
      {},
    ]);
    const lines = ["pods 0 web", "schedule 1 tick of 4", "pods 2 db", "main 3 unknown", "__main__"];
    expect(got).toMatchObject({ lines, code: 0 });
  });

  test("`exit 0`, variables, options and the directory end with their context; code behind hook::run runs", async () => {
    const body = `
shared=0
__main__() {
  echo "$BINDING_CONTEXT_CURRENT_BINDING $shared \${exported:-} $PWD $-"
  shared=1; export exported=1; cd /; set +e
  if [[ $BINDING_CONTEXT_CURRENT_BINDING == B ]]; then exit 0; fi
  echo "end $BINDING_CONTEXT_CURRENT_BINDING"
}
hook::run "$@"
echo "behind $shared $PWD"
exit`;
    const got = await hook(
      body,
      ["A", "B", "C"].map((binding) => ({ binding })),
    );
    const start = (name: string): unknown => expect.stringMatching(new RegExp(`^${name} 0  /.+ .*e`));
    expect(got).toMatchObject({
      lines: [start("A"), "end A", start("B"), start("C"), "end C", expect.stringMatching(/^behind 0 \/.+/)],
      code: 0,
    });
  });

  test.each([
    ["exit 3", 3],
    ["(exit 7); echo never", 7],
    ["no-such-program; echo never", 127],
    ["[[ a == b ]] && echo never", 1],
    ["false | true; echo never", 1],
    ['x="$(false; echo x)"; echo never', 1],
  ])("%s in the third of five contexts ends the hook with %i", async (command, code) => {
    const body = `__main__() { echo "$BINDING_CONTEXT_CURRENT_INDEX"; if ((BINDING_CONTEXT_CURRENT_INDEX == 2)); then ${command}; fi; }`;
    const got = await hook(`${body}\nhook::run\necho behind`, [{}, {}, {}, {}, {}]);
    expect(got).toMatchObject({ lines: ["0", "1", "2"], code });
  });

  test("without errexit a failed function ends the hook too", async () => {
    const got = await hook("set +e\n__main__() { false; echo on; return 6; }", [{}, {}]);
    expect(got).toMatchObject({ lines: ["on"], code: 6, stderr: "" });
  });

  test("functions that read stdin do not swallow contexts", async () => {
    const got = await hook("__main__() { read -r line || true; echo one; }", [{ binding: "x" }, {}]);
    expect(got.lines).toEqual(["one", "one"]);
  });

  test.each([
    ["[]", 0, ["behind"]],
    ["", 0, ["behind"]],
    ['{"binding":"x"}', 5, []],
    ["[", 4, []],
  ])("the file %j: rc %i", async (text, code, lines) => {
    const got = await hook("__main__() { echo no; }\nhook::run\necho behind\nexit", text);
    expect(got).toMatchObject({ lines, code });
  });

  test("an unreadable context file fails the hook", async () => {
    expect((await hook("BINDING_CONTEXT_PATH=/nonexistent\n__main__() { :; }", [])).code).toBe(2);
  });

  test("libraries with a hook::run of their own get the names", async () => {
    const body = `
hook::run() {
  for BINDING_CONTEXT_CURRENT_INDEX in 0 1; do
    hook::_get_possible_handler_names
    hook::_determine_kubernetes_and_scheduler_handlers
  done
}`;
    const got = await hook(body, [
      { binding: "pods", type: "Event", watchEvent: "Deleted" },
      { binding: "pods", type: "Group", groupName: "g" },
    ]);
    const event = "__on_kubernetes::pods::deleted __on_kubernetes::pods __main__";
    expect(got.lines).toEqual([
      event,
      event,
      "__on_group::g __main__",
      "__on_group::pods __on_group::g __main__",
    ]);
  });
});
