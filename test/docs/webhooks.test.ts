import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { run } from "../support/command-line.ts";

// The hooks of docs/guides/webhooks.md, each played with the review beside it.

const page = readFileSync(join(import.meta.dirname, "../../docs/guides/webhooks.md"), "utf8");
const dir = mkdtempSync(join(tmpdir(), "webhooks-page-"));
afterAll(() => rmSync(dir, { recursive: true }));

const blocks = [...page.matchAll(/^```(\w+ [^\n]+)\n([^]*?)^```$/gm)].map(([, head = "", text = ""]) => ({
  head,
  text,
}));
const of = (word: string) => blocks.filter(({ head }) => head.startsWith(word));
const hooks = of("bash hooks/");
const answers = of("yaml answer");
const reviews = of("json review ");

test("each hook has a review and an answer", () => {
  expect([hooks.length, reviews.length, answers.length]).toEqual([3, 3, 3]);
});

describe("hook run --review prints what the page says", () => {
  test.each(hooks.map(({ head, text }, index) => ({ head, text, index })))(
    "$head",
    async ({ text, index }) => {
      const [hook, review] = [join(dir, `hook-${index}.sh`), join(dir, `review-${index}.json`)];
      writeFileSync(hook, text);
      chmodSync(hook, 0o755);
      writeFileSync(review, reviews[index]?.text ?? "");
      const env = { PATH: process.env["PATH"] ?? "" };
      const printed = await run(["hook", "run", hook, "--review", review], { env });
      expect(printed).toEqual({ code: 0, text: answers[index]?.text });
    },
  );
});
