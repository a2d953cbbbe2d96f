import { describe, expect, test } from "vitest";

import { TextsWithoutSecrets } from "../../../src/base/redact/redact-text.ts";

describe("texts without secrets", () => {
  test("are known again", () => {
    const texts = new TextsWithoutSecrets(3);
    texts.add("Hook run ended");
    expect(texts.has("Hook run ended")).toBe(true);
    expect(texts.has("Hook run")).toBe(false);
  });

  test("never more than so many, and no long ones", () => {
    const texts = new TextsWithoutSecrets(3);
    const lines = Array.from({ length: 10 }, (_, count) => `line ${count}`);
    for (const line of lines) {
      texts.add(line);
      expect(lines.filter((each) => texts.has(each)).length).toBeLessThanOrEqual(3);
    }
    texts.add("x".repeat(257));
    expect(texts.has("x".repeat(257))).toBe(false);
  });
});
