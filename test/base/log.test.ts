import { expect, test } from "vitest";

import { createLogger, systemClock } from "../../src/base/index.ts";

test.each([
  ["text", "WARN  A hook failed hook=global:a.sh tries=0 queue=null\n"],
  ["color", "\u001B[33mWARN \u001B[0m A hook failed hook=global:a.sh tries=0 queue=null\n"],
  ["json", '{"level":"warn","msg":"A hook failed","hook":"global:a.sh","tries":0,"queue":null}\n'],
] as const)("a field without a value is no part of a line of type %s", (type, line) => {
  const lines: string[] = [];
  const write = (text: string): void => void lines.push(text);
  const logger = createLogger({ level: "info", type, noTime: true, clock: systemClock, write });
  const bound = logger.child({ module: undefined, hook: "global:a.sh" });
  bound.warn("A hook failed", { tries: 0, event: undefined, queue: null });
  expect(lines).toEqual([line]);
});

const FORGED = "a\r\nERROR b\u2028ERROR c\u2029d\u0085e\u001b[2Jf\u202eg\u200b";

test.each([
  [
    "text",
    String.raw`INFO  a\u000d\u000aERROR b\u2028ERROR c\u2029d\u0085e\u001b[2Jf\u202eg\u200b "k\n level"="a\r\nERROR b\u2028ERROR c\u2029d\u0085e\u001b[2Jf\u202eg\u200b"`,
  ],
  [
    "json",
    String.raw`{"level":"info","msg":"a\r\nERROR b\u2028ERROR c\u2029d\u0085e\u001b[2Jf\u202eg\u200b","k\n level":"a\r\nERROR b\u2028ERROR c\u2029d\u0085e\u001b[2Jf\u202eg\u200b"}`,
  ],
] as const)("foreign text in a line of type %s forges no line and no direction", (type, line) => {
  const lines: string[] = [];
  const write = (text: string): void => void lines.push(text);
  const logger = createLogger({ level: "info", type, noTime: true, clock: systemClock, write });
  logger.info(FORGED, { "k\n level": FORGED });
  expect(lines).toEqual([`${line}\n`]);
});
