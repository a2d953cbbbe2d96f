import { expect, it } from "vitest";

import { createLogger } from "../../../src/base/index.ts";
import { checkSchemas } from "../../../src/engine/tasks/index.ts";
import { ManualClock } from "../../support/clock.ts";

function log() {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const sink = { level: "info", type: "text", noTime: true, clock: new ManualClock(0), write } as const;
  return { lines, logger: createLogger(sink) };
}

it("logs what schemas hold that means nothing, once, with the file", () => {
  const { lines, logger } = log();
  const text = "type: object\nproperties: {a: {typo: 1, format: odd}}\n";
  const files = () => ({ values: { file: "/m/openapi/values.yaml", text } });
  expect(checkSchemas({ logger }, files())).toBeUndefined();
  expect(checkSchemas({ logger }, files(), files())).toBeUndefined();
  expect(lines).toEqual([
    'WARN  /m/openapi/values.yaml: /properties/a: unknown keyword "typo"\n',
    'WARN  /m/openapi/values.yaml: /properties/a: unknown format "odd"\n',
  ]);
});

it("answers what makes schemas unusable", () => {
  const { lines, logger } = log();
  const values = { file: "/m/openapi/values.yaml", text: "type: [" };
  expect(checkSchemas({ logger }, { values })).toMatchObject({ file: values.file });
  expect(lines).toEqual([]);
});
