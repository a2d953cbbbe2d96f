import { parseSync } from "oxc-parser";

/** What takes the title of a test; `step` is that of scripts/e2e.mjs. */
const CALLS: ReadonlySet<string> = new Set(["test", "it", "describe", "step"]);

/** A node of a syntax tree, as the parser makes it. */
interface Node {
  readonly type: string;
  readonly [key: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string";

const childrenOf = (node: Node): Node[] => Object.values(node).flat().filter(isNode);

/** The text of a literal; what is put in when it runs is `…`. */
function textOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (node.type === "Literal") return typeof node["value"] === "string" ? node["value"] : undefined;
  if (node.type !== "TemplateLiteral") return undefined;
  return (node["quasis"] as readonly { value: { cooked: string } }[])
    .map(({ value }) => value.cooked)
    .join("…");
}

/** `test.skipIf(x).each(rows)` → `["test", "skipIf", "each"]`, and the rows. */
function chainOf(callee: unknown): { readonly names: readonly string[]; readonly rows?: unknown } {
  if (!isNode(callee)) return { names: [] };
  if (callee.type === "Identifier") return { names: [String(callee["name"])] };
  if (callee.type === "MemberExpression") {
    const { names, rows } = chainOf(callee["object"]);
    return { names: [...names, String((callee["property"] as Node)["name"])], rows };
  }
  if (callee.type !== "CallExpression") return { names: [] };
  const { names, rows } = chainOf(callee["callee"]);
  const own = ["each", "for"].includes(names.at(-1) ?? "")
    ? (callee["arguments"] as unknown[])[0]
    : undefined;
  return { names, rows: own ?? rows };
}

/** First texts of the rows of a table. */
function firstTexts(rows: unknown, program: Node): string[] {
  if (!isNode(rows)) return [];
  if (rows.type === "Identifier") return firstTexts(valueOf(String(rows["name"]), program), program);
  if (rows.type.startsWith("TS")) return firstTexts(rows["expression"], program);
  if (rows.type !== "ArrayExpression") return [];
  return (rows["elements"] as unknown[]).flatMap((row) => {
    const text =
      isNode(row) && row.type === "ArrayExpression" ? textOf((row["elements"] as unknown[])[0]) : textOf(row);
    return text ?? [];
  });
}

/** What a constant of the file is set to. */
function valueOf(name: string, node: Node): unknown {
  if (node.type === "VariableDeclarator" && (node["id"] as Node)["name"] === name) return node["init"];
  for (const child of childrenOf(node)) {
    const found = valueOf(name, child);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Titles of the tests and groups below a node that are not skipped. */
function titlesBelow(node: Node, program: Node): string[] {
  const { names, rows } =
    node.type === "CallExpression" ? chainOf(node["callee"]) : { names: [], rows: undefined };
  if (names.includes("skip") || names.includes("todo")) return [];
  const title = textOf((node["arguments"] as unknown[] | undefined)?.[0]);
  const isTitle = CALLS.has(names[0] ?? "") && title !== undefined;
  const own = isTitle
    ? [
        title,
        ...(title.startsWith("%s") ? firstTexts(rows, program).map((text) => title.replace("%s", text)) : []),
      ]
    : [];
  return [...own, ...childrenOf(node).flatMap((child) => titlesBelow(child, program))];
}

/** Titles of the tests and groups of a file that are not skipped. */
export function titlesIn(source: string): string[] {
  const program = parseSync("test.ts", source).program as unknown as Node;
  return titlesBelow(program, program);
}
