// context::*: paths and values.
import { describe, expect, test } from "vitest";

import { PATHS, shellHook } from "../support/shell-hook.ts";

const context = {
  binding: "x",
  m: { n: null, t: true, f: false, s: "true", "my-l": "v", "a.b": 1, "a.b.c": 2, 'q"': 3 },
  l: [{ k: 1, "x-y": { z: 2 } }],
  "app.io/name": ["first"],
  snapshots: { x: [{ filterResult: "f" }], e: [] },
};

/** For each command: stdout without its last line break, the exit code, stderr. */
type Result = [stdout: string, code: number, stderr: string];

describe.each(PATHS)("context::* (PATH: %s)", (path) => {
  const hook = shellHook({ path });

  /** All commands in one run of one hook. */
  async function results(commands: readonly string[]): Promise<Map<string, Result>> {
    const calls = commands.map(
      (command) =>
        `{ stdout="$(${command})"; } 2>errors && code=0 || code=$?; printf '%s\\x1f%s\\x1f%s\\x1e' "$stdout" "$code" "$(<errors)"`,
    );
    const { lines } = await hook(`__main__() {\n${calls.join("\n")}\n}`, [context]);
    const records = lines
      .join("\n")
      .split("\u001E")
      .map((record) => record.split("\u001F"));
    return new Map(
      commands.map((command, index) => {
        const [stdout = "", code, stderr = ""] = records[index] ?? [];
        return [command, [stdout, Number(code), stderr]];
      }),
    );
  }

  async function expectAll(table: Readonly<Record<string, Result>>): Promise<void> {
    expect(Object.fromEntries(await results(Object.keys(table)))).toEqual(table);
  }

  test("a path is keys with dots, or any jq", async () => {
    const paths: [path: string, jq: string, parent: string, last: string][] = [
      ["", ".", ".", ""],
      [".", ".", ".", ""],
      ["a.0", ".a[0]", ".a", "0"],
      ["a.0.1.b", ".a[0][1].b", ".a[0][1]", "b"],
      ["0.a", ".[0].a", ".[0]", "a"],
      ["a-b.c-d", '."a-b"."c-d"', '."a-b"', "c-d"],
      ['a."b.c".d', '.a."b.c".d', '.a."b.c"', "d"],
      ["a.'b.c'", '.a."b.c"', ".a", "b.c"],
      ['a."b.c".0', '.a."b.c"[0]', '.a."b.c"', "0"],
      ['a."b.c.d"', '.a."b.c.d"', ".a", "b.c.d"],
      ["a[0].b", ".a[0].b", ".a[0]", "b"],
      ['a["x-y"]', '.a["x-y"]', ".a", "x-y"],
      ["[0].a", ".[0].a", ".[0]", "a"],
      ["a.1st", '.a."1st"', ".a", "1st"],
      [".a.b", ".a.b", ".a", "b"],
    ];
    const jq = ["x | keys", "a[].b", "a.b|length", "a // 1", "..|numbers"];
    const rows: [string, Result][] = [
      ...paths.flatMap(([user, converted, parent, last]): [string, Result][] => {
        const word = `'${user.replaceAll("'", String.raw`'\''`)}'`;
        return [
          [`context::_convert_user_path_to_jq_path ${word}`, [converted, 0, ""]],
          [`context::_dirname ${word}`, [parent, 0, ""]],
          [`context::_basename ${word}`, [last, 0, ""]],
        ];
      }),
      ...jq.map((each): [string, Result] => [
        `context::_convert_user_path_to_jq_path '${each}'`,
        [each.startsWith(".") ? each : `.${each}`, 0, ""],
      ]),
    ];
    await expectAll(Object.fromEntries(rows));
  });

  test("context::get prints the value", async () => {
    await expectAll({
      "context::get m.my-l": ["v", 0, ""],
      "context::get 'm.\"a.b\"'": ["1", 0, ""],
      [`context::get "m.'q\\"'"`]: ["3", 0, ""],
      "context::get l.0.k": ["1", 0, ""],
      "context::get '.l[0].k'": ["1", 0, ""],
      "context::get 'l[0][\"x-y\"].z'": ["2", 0, ""],
      "context::get 'l[].x-y.z'": ["2", 0, ""],
      "context::get '\"app.io/name\".0'": ["first", 0, ""],
      "context::get snapshots.x.0.filterResult": ["f", 0, ""],
      "context::get 'snapshots | keys | length'": ["2", 0, ""],
      "context::get l": ['[\n  {\n    "k": 1,\n    "x-y": {\n      "z": 2\n    }\n  }\n]', 0, ""],
      "context::get | jq -c '.l[0].k'": ["1", 0, ""],
      "context::get m.zz": ["null", 0, ""],
      "context::get m.zz.deeper": ["null", 0, ""],
      "context::get m.n": ["null", 0, ""],
      "context::get --required m.my-l": ["v", 0, ""],
      "context::get --required m.n": ["null", 0, ""],
      "context::get --required m.zz": ["", 1, "Error: Value m.zz required, but doesn't exist"],
      "context::get m.s.deeper": ["", 5, expect.stringMatching(/^jq: error .*Cannot index string/)],
      "context::get --required m.s.deeper": [
        "",
        5,
        expect.stringMatching(/^jq: error .*Cannot index string/),
      ],
    });
  });

  test("conditions print nothing: 0 yes, 1 no, 5 where the path does not fit the data", async () => {
    const codes = {
      "has snapshots.x.0": 0,
      "has snapshots.x.1": 1,
      "has snapshots.e.0": 1,
      "has snapshots.zz.0": 1,
      "has m.n": 0,
      "has m.zz": 1,
      "has zz.deeper": 1,
      "has m.s.deeper": 5,
      "has m.my-l": 0,
      "has 'm.\"a.b\"'": 0,
      "has 'm.\"a.b.c\"'": 0,
      "has 'l[0][\"x-y\"].z'": 0,
      has: 0,
      "is_true m.t": 0,
      "is_true m.f": 1,
      "is_true m.s": 1,
      "is_true m.zz": 1,
      "is_true m.zz.deeper": 1,
      "is_true m.s.deeper": 5,
      "is_false m.f": 0,
      "is_false m.t": 1,
      "is_false m.zz": 1,
      "is_false m.n": 1,
      "is_false m.s.deeper": 5,
      "is_null m.n": 0,
      "is_null m.zz": 0,
      "is_null m.t": 1,
      "is_null m.f": 1,
      "is_null m.s.deeper": 5,
    };
    const rows = Object.entries(codes).map(([call, code]) => [`context::${call}`, ["", code, ""]]);
    await expectAll(Object.fromEntries(rows));
  });

  test("context::jq is jq over the current context, context::global::jq over all of them", async () => {
    await expectAll({
      "context::jq -r --arg k binding '.[$k]'": ["x", 0, ""],
      "context::jq -c '.l[] | keys'": ['["k","x-y"]', 0, ""],
      "context::jq -e .m.n": ["null", 1, ""],
      "context::jq -e .m.f": ["false", 1, ""],
      "context::global::jq -r length": ["1", 0, ""],
    });
  });

  test("paths are those of the current context", async () => {
    const body = "__main__() { context::get v; context::is_true t && context::jq -c .v; }";
    const got = await hook(body, [
      { v: 1, t: true },
      { v: 2, t: true },
    ]);
    expect(got).toMatchObject({ lines: ["1", "1", "2", "2"], code: 0 });
  });
});
