import { expect, test } from "vitest";

import { lineWithCommand, shortenMiddle, oneLine } from "../../src/base/index.ts";

// As an API server of Kubernetes 1.30 reports it, with more versions.
const version = 'CustomResourceDefinitionVersion{Name:"v1", Served:true, Schema:(*Validation)(nil)}, ';
const refused = `"things" is invalid:\n* spec.versions: Invalid value: []Version{${version.repeat(20)}}: must have one`;

test("of a long refusal one reads what is refused, and why", () => {
  const reported = shortenMiddle(new Error(refused));
  expect(reported).toMatch(/^"things" is invalid: \* spec\.versions: /);
  expect(reported).toMatch(/: must have one$/);
  expect(reported.length).toBeLessThanOrEqual(500);
  expect(oneLine(new Error(refused))).not.toContain("must have one");
});

test("a short message stays as it is, in one line", () => {
  expect(shortenMiddle(new Error("no\n  such thing"))).toBe("no such thing");
});

const command = `kubectl patch crd things --type=json -p '[{"op":"replace"},{"op":"add; b"}]' && sleep 5 && kubectl get things`;

test("a long message is never cut within a command, and keeps what is said of it", () => {
  const text = `Module web: ${"object ".repeat(200)} (migrate them: ${command}); ${"more ".repeat(200)}`;
  const line = lineWithCommand(text);
  expect(line).toMatch(/^Module web: object /);
  expect(line).toContain(`(migrate them: ${command}…`);
  expect(line.length).toBeLessThan(620);
});

test.each([[`do this: ${command}`], [`${"a".repeat(490)} ${command}`], [`${command}) ${"a".repeat(900)}`]])(
  "the command is whole: %#",
  (text) => {
    expect(lineWithCommand(text)).toContain(command);
  },
);

test("where a command does not fit, the message ends before it", () => {
  const long = `${"word ".repeat(100)}: kubectl annotate web ${"x".repeat(900)}`;
  const line = lineWithCommand(long, 1000, 1000);
  expect(line).toMatch(/word :$/);
  expect(lineWithCommand("a".repeat(5000)).length).toBe(500);
});

test("one line of untrusted text has nothing that a terminal obeys", () => {
  const said = "\u001b[31mError\u001b[0m:\u0000 \u001b]0;title\u0007x\r\n\u009b31mnext\u0085\u007f\ttab";
  expect(oneLine(said)).toBe("Error: x 31mnext tab");
});

test("a message shows characters that change the direction or end a line, and keeps joiners", () => {
  expect(oneLine("file \u202etxt.exe\u2066 a\u2028b \u200bc \u{e0061}")).toBe(
    String.raw`file \u202etxt.exe\u2066 a b \u200bc \udb40\udc61`,
  );
  expect(oneLine("\u06a9\u200c\u0627 👩\u200d💻")).toBe("\u06a9\u200c\u0627 👩\u200d💻");
});
