import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";

// docs/reference/commands.md: what is printed arrives whole, however slow the reader is.

const file = new URL("../../../src/base/files/files.ts", import.meta.url).href;
const script = `
  import { writeAll } from "${file}";
  // Asked for its kind, the pipe does not block any more.
  void process.stdout.isTTY;
  writeAll(1, "x".repeat(10_000_000));
`;

async function piped(reader: string): Promise<string> {
  const command = `"$0" --input-type=module -e "$1" | ${reader}`;
  const env = { ...process.env, NODE_NO_WARNINGS: "1" };
  const { stdout, stderr } = await promisify(execFile)("sh", ["-c", command, process.execPath, script], {
    env,
  });
  expect(stderr).toBe("");
  return stdout.trim();
}

it("writes all of it into a pipe, and nothing is said to a reader that has gone", async () => {
  expect(await piped("wc -c")).toBe("10000000");
  expect(await piped("head -c 3")).toBe("xxx");
});
