import { expect, test } from "vitest";

import { findKeyLine } from "../../../src/base/index.ts";

const TEXT = `# values
global: {zone: eu}
web:
  port: 80
  list:
    - name: a
      size: 1
    - name: b

      size: 2
  deep: {x: {y: 1,
    z: 2}}
  port: 81
`;

test.each([
  ["/global/zone", 2],
  ["/web", 3],
  ["/web/port", 13],
  ["/web/list/1/size", 10],
  ["/web/list/1/none", undefined],
  ["/web/deep/x/z", 12],
  ["/web/none/x", undefined],
  ["/port", undefined],
])("the line of %s is %s", (path, line) => {
  expect(findKeyLine(TEXT, path.split("/").slice(1))).toBe(line);
});
