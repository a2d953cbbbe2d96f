import { expect, it } from "vitest";

import { withoutDirectives } from "../../../src/kube/drift/directives.ts";

it("removes directives, and what they delete", () => {
  const spec = {
    strategy: { $patch: "replace", type: "Recreate" },
    gone: { $patch: "delete", a: 1 },
    "$setElementOrder/containers": [{ name: "a" }],
    containers: [
      { $patch: "replace" },
      { name: "b", $patch: "delete" },
      { name: "a", volume: { $retainKeys: ["emptyDir"], emptyDir: {} } },
    ],
  };
  const rest = { strategy: { type: "Recreate" }, containers: [{ name: "a", volume: { emptyDir: {} } }] };
  expect(withoutDirectives({ spec })).toEqual({ spec: rest });
  expect(withoutDirectives({ spec: rest, data: { patch: "$patch", $other: "x" } })).toBeUndefined();
});
