import { expect, it } from "vitest";

import { redactValues } from "../../../src/base/index.ts";
import type { Json } from "../../../src/base/model/index.ts";
import { type Leaf, PLAIN, SECRETS } from "./redact-corpus.ts";

const textOf = (value: Json): string =>
  value !== null && typeof value === "object"
    ? Object.values(value)
        .map((each) => textOf(each ?? null))
        .join("\n")
    : String(value);
/** Any four digits may be in one. */
const PLACEHOLDER = /<redacted:[0-9a-f]+>/g;
/** In values only: a key may have the same word. */
const shows = ({ values, text }: Leaf): boolean =>
  textOf(redactValues(values)).replaceAll(PLACEHOLDER, "").includes(text);
const nameOf = ({ name }: Leaf): string => name;

it("masks every secret of charts and shows every other value", () => {
  expect(SECRETS.length).toBeGreaterThanOrEqual(150);
  expect(PLAIN.length).toBeGreaterThanOrEqual(150);
  expect(SECRETS.filter(shows).map(nameOf)).toEqual([]);
  expect(PLAIN.filter((leaf) => !shows(leaf)).map(nameOf)).toEqual([]);
});
