import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseCrontab } from "../../src/cron/index.ts";
import {
  HookLoader,
  hookFileAt,
  hookOffline,
  parseHookConfig,
  parseMetrics,
  parseObjectOperations,
} from "../../src/hooks/index.ts";
import type { HookOutput } from "../../src/hooks/index.ts";
import { silentLogger } from "../../src/lib/index.ts";

const root = join(import.meta.dirname, "..", "..");
const page = readFileSync(join(root, "docs", "HOOKS.md"), "utf8");
const dir = mkdtempSync(join(tmpdir(), "hooks-page-"));
afterAll(() => rmSync(dir, { recursive: true }));

const env = { PATH: process.env["PATH"] ?? "", SHELL_LIB_PATH: join(root, "shell", "shell_lib.sh") };
const checkCrontab = (line: string): string | undefined => parseCrontab(line).warning;

/** Fenced blocks in order; the words after the language say what a block is. */
const blocks = [...page.matchAll(/^```(\w+) (.+)\n([^]*?)^```$/gm)].map(([, , kind = "", text = ""]) => ({
  kind,
  text,
}));
const kindOf = (word: string | undefined) => (word === "module" ? "module" : "global");

describe("configurations", () => {
  const configs = blocks.filter(({ kind }) => kind.endsWith(" config"));
  test.each(configs)("$text", ({ kind, text }) => {
    const parsed = parseHookConfig(text, kindOf(kind.split(" ")[0]), { checkCrontab });
    expect(parsed).toMatchObject({ config: {}, warnings: [] });
  });
});

/** A hook of the page, and the context and outputs that follow it. */
interface Example {
  readonly name: string;
  readonly kind: "global" | "module";
  readonly path: string;
  readonly context: string | undefined;
  readonly left: readonly { readonly kind: string; readonly text: string }[];
}

function examples(): Example[] {
  const starts = blocks.flatMap(({ kind }, index) => (/^(global|module) hooks\//.test(kind) ? [index] : []));
  return starts.map((start) => {
    const [kind, name = ""] = (blocks[start]?.kind ?? "").split(" ");
    const path = join(dir, kind ?? "", name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, blocks[start]?.text ?? "");
    chmodSync(path, 0o755);
    const rest = blocks.slice(start + 1);
    const end = rest.findIndex((block) => !block.kind.endsWith("_PATH"));
    const files = rest.slice(0, end);
    const context = files.find((block) => block.kind === "BINDING_CONTEXT_PATH")?.text;
    const left = files.filter((block) => block.kind !== "BINDING_CONTEXT_PATH");
    return { name, kind: kindOf(kind), path, context, left };
  });
}

const READ: Readonly<Record<string, (output: HookOutput, text: string) => [unknown, unknown]>> = {
  VALUES_JSON_PATCH_PATH: (output, text) => [JSON.parse(output.valuesPatchText), JSON.parse(text)],
  KUBERNETES_PATCH_PATH: (output, text) => [output.objects, parseObjectOperations(text)],
  METRICS_PATH: (output, text) => [output.metrics, parseMetrics(text)],
};

describe("hooks", () => {
  test.each(examples())("$name", async ({ kind, path, context = "[]", left }) => {
    const loader = new HookLoader({ env, workingDir: undefined, logger: silentLogger, checkCrontab });
    const loaded = await loader.load(hookFileAt(path), kind === "module" ? "web" : undefined);
    expect(loaded).toMatchObject({ hook: {}, warnings: [] });
    const settings = {
      env,
      workingDir: undefined,
      tmpDir: dir,
      debugKeepTmpFiles: false,
      logProxyHookJson: false,
    };
    const { failure, output } = await hookOffline({
      path,
      context,
      values: "{}",
      configValues: "{}",
      settings,
      logger: silentLogger,
    });
    expect(failure).toBeUndefined();
    for (const block of left) {
      const [got, told] = READ[block.kind]?.(output as HookOutput, block.text) ?? [block.kind, "known"];
      expect(got).toEqual(told);
    }
  });
});

test("the file with all operations is one, and names all of the table", () => {
  const text = blocks.find(({ kind }) => kind === "KUBERNETES_PATCH_PATH syntax")?.text ?? "";
  const operations = parseObjectOperations(text).map(({ operation }) => operation);
  const table = page.slice(page.indexOf("| operation |"), page.indexOf("All nine"));
  expect(operations).toHaveLength(9);
  expect([...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)).toEqual(operations);
});

test("every block of the page is known", () => {
  const known = /^((global|module) (config|hooks\/.+)|[A-Z_]+_PATH( syntax)?)$/;
  expect(blocks.filter(({ kind }) => !known.test(kind))).toEqual([]);
});
