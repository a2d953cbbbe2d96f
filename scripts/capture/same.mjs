// Makes output of kubectl the same in each run.
const AGES = { AGE: "41d", "LAST RUN": "12s", CONFIG: "8812" };

/** `output` of the command `name` without what only this run has. */
export function sameEachTime(name, output) {
  if (name === "describe") return described(output);
  if (name === "explain") return output;
  return table(output);
}

/** Columns of a table by kubectl: each begins where its heading does. */
export function columnsOf(head) {
  return head
    .trimEnd()
    .split(/ {2,}/)
    .map((title) => title.trim());
}

function table(output) {
  const [head, ...lines] = output.trimEnd().split("\n");
  const titles = columnsOf(head);
  const starts = titles.map((title) => head.indexOf(title));
  const rows = lines.map((line) =>
    titles.map((title, index) => {
      const cell = line.slice(starts[index], starts[index + 1]).trim();
      return title in AGES && cell !== "" ? AGES[title] : cell;
    }),
  );
  const all = [titles, ...rows];
  const widths = titles.map((_, index) => Math.max(...all.map((row) => row[index].length)));
  return all
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] + 3))
        .join("")
        .trimEnd(),
    )
    .join("\n");
}

function described(output) {
  const [object, events] = output.split(/^Events:/m);
  const same = object
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, "2026-01-01T00:00:00Z")
    .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "5f0c8b1e-7d3a-4c55-9a53-0d1f6a3c9e21")
    .replaceAll(/(Resource Version: +)\d+/g, "$18812")
    .replaceAll(/(addon-operator\.io\/managed-by=v1-|v2-)[0-9a-f]{40}/g, (_, mark) => `${mark}…`)
    .replaceAll(/(Duration Seconds: +)[\d.]+/g, "$10.4");
  const reported = (events ?? "").replaceAll(/^( +Normal +\w+ +)\S+( +)/gm, "$112s$2").trimEnd();
  return `${same}Events:${reported}`;
}
