/** A sentence, a row of a table or a block of code, under its heading. */
export interface Statement {
  readonly section: string;
  readonly text: string;
}

/** Rows of tables that name their tests themselves. */
const WITH_TESTS = "| statement | shown by |";
/** Where one sentence ends and another begins. */
const BETWEEN = /(?<=[.!?][)"*]*)(?<!\be\.g\.) /;

const isRow = (line: string): boolean => line.startsWith("|");

/** The rows of a table, without its head. */
function rows(lines: readonly string[]): string[] {
  return lines[0]?.startsWith(WITH_TESTS) === true ? [] : lines.slice(2);
}

/** Sentences of paragraphs and items; a line that goes on belongs to the one before. */
function sentences(lines: readonly string[]): string[] {
  const code: string[] = [];
  const hidden = lines.join("\n").replaceAll(/`[^`]*`/g, (text) => `\uE000${code.push(text) - 1}\uE000`);
  return hidden
    .split(/\n(?=\s*(?:[-*]|\d+\.) )/)
    .flatMap((item) =>
      item
        .trim()
        .replace(/^(?:[-*]|\d+\.) /, "")
        .replaceAll(/\s+/g, " ")
        .split(BETWEEN),
    )
    .map((text) =>
      text.replaceAll(/\uE000(\d+)\uE000/g, (_, index: string) =>
        (code[Number(index)] ?? "").replaceAll("\n", " "),
      ),
    );
}

/** Everything that a page says, in order. */
export function statementsOf(page: string): Statement[] {
  let section = "";
  const blocks: string[] = [];
  const text = page
    .replaceAll(
      /^(```[^]*?\n)```$/gm,
      (_, block: string) => `\n\uE001${blocks.push(block.split("\n")[0] ?? "") - 1}\n`,
    )
    .replaceAll(/^<!--.*-->$/gm, "");
  return text.split(/\n{2,}|\n(?=#)|(?<=^#.*)\n/m).flatMap((part) => {
    const lines = part.trim().split("\n");
    const [first = ""] = lines;
    if (first.startsWith("#")) section = first.replace(/^#+ /, "");
    if (first === "" || first.startsWith("#")) return [];
    if (first.startsWith("\uE001")) return [{ section, text: blocks[Number(first.slice(1))] ?? "" }];
    return (isRow(first) ? rows(lines) : sentences(lines)).map((each) => ({ section, text: each }));
  });
}
