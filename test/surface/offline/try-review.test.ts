import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { run } from "../../support/command-line.ts";

// `hook run --review` refuses what the operator refuses (docs/reference/hooks.md, "Webhooks").

const ADMISSION = { request: { uid: "1", operation: "CREATE", object: {} } };
const CONVERSION = {
  request: {
    uid: "1",
    desiredAPIVersion: "example.com/v2",
    objects: [{ apiVersion: "example.com/v1" }, { apiVersion: "example.com/v1" }],
  },
};
const CONFIG: Readonly<Record<string, object>> = {
  validating: { kubernetesValidating: [{ name: "a.example.com" }] },
  mutating: { kubernetesMutating: [{ name: "a.example.com" }] },
  conversion: {
    kubernetesCustomResourceConversion: [
      { name: "c", crdName: "c.example.com", conversions: [{ fromVersion: "v1", toVersion: "v2" }] },
    ],
  },
};

/** Plays a review with a global hook that runs `script`. */
async function play(type: string, script: string): Promise<{ code: number; text: string }> {
  const dir = mkdtempSync(join(tmpdir(), "review-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const [hook, review] = [join(dir, "hook.sh"), join(dir, "review.json")];
  const config = JSON.stringify({ configVersion: "v1", ...CONFIG[type] });
  writeFileSync(
    hook,
    `#!/bin/sh\nif [ "$1" = --config ]; then echo '${config}'; exit; fi\nanswer() { echo "$1" > "$ADMISSION_RESPONSE_PATH"; }\n${script}\n`,
  );
  chmodSync(hook, 0o755);
  writeFileSync(review, JSON.stringify(type === "conversion" ? CONVERSION : ADMISSION));
  return run(["hook", "run", hook, "--review", review], { env: { PATH: process.env["PATH"] ?? "" } });
}

const PATCH = `answer '{"allowed": true, "patch": "W10="}'`;
const PATCH_FLAG = `answer '{"allowed": true}'; echo '{"op": "add", "path": "/webEnabled", "value": true}' > "$VALUES_JSON_PATCH_PATH"`;
const ONE = `echo '{"convertedObjects": [{"apiVersion": "example.com/v2"}]}' > "$CONVERSION_RESPONSE_PATH"`;

test.each([
  ["validating", PATCH, "kubernetesValidating must not answer with a patch"],
  ["validating", PATCH_FLAG, "a hook that answers a review must not patch values"],
  ["mutating", "true", "wrote no response: the file at ADMISSION_RESPONSE_PATH is empty"],
  ["conversion", "true", "wrote no response: the file at CONVERSION_RESPONSE_PATH is empty"],
  ["conversion", ONE, "returned 1 objects instead of 2"],
])("%s: %s is a failure", async (type, script, failure) => {
  const { code, text } = await play(type, script);
  expect([code, text.replaceAll(/\s+/g, " ")]).toEqual([1, expect.stringContaining(failure)]);
});

test.each([
  ["mutating", PATCH, "patch: W10="],
  ["validating", `answer '{"allowed": false, "message": "no"}'`, "message: 'no'"],
  ["conversion", `echo '{"failedMessage": "too old"}' > "$CONVERSION_RESPONSE_PATH"`, "too old"],
])("%s: %s is an answer", async (type, script, shown) => {
  const { code, text } = await play(type, script);
  expect([code, text]).toEqual([0, expect.stringContaining(shown)]);
});
