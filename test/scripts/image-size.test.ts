import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import budgets from "../budgets.json" with { type: "json" };

const root = join(import.meta.dirname, "../..");
const MIB = 2 ** 20;
const most = budgets["image to download, MiB"];

/** An OCI archive as `docker build` writes it: an index of an index of images, whose only layers have these sizes, and an attestation. */
function archiveOf(sizes: Readonly<Record<string, number>>): string {
  const dir = mkdtempSync(join(tmpdir(), "image-size-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, "blobs/sha256"), { recursive: true });
  const blob = (content: object): { digest: string } => {
    const text = JSON.stringify(content);
    const hash = createHash("sha256").update(text).digest("hex");
    writeFileSync(join(dir, "blobs/sha256", hash), text);
    return { digest: `sha256:${hash}` };
  };
  const image = (architecture: string, size: number) => ({
    ...blob({ config: { size: 0 }, layers: [{ size }, { size: 0 }] }),
    platform: { architecture },
  });
  const manifests = Object.entries(sizes).map(([architecture, size]) => image(architecture, size));
  const all = blob({ manifests: [...manifests, image("unknown", 1000 * MIB)] });
  writeFileSync(join(dir, "index.json"), JSON.stringify({ manifests: [all] }));
  execFileSync("tar", ["-cf", "image.tar", "index.json", "blobs"], { cwd: dir });
  return join(dir, "image.tar");
}

function measure(archive: string): { status: number | null; stdout: string } {
  const { status, stdout } = spawnSync(process.execPath, [join(root, "scripts/image-size.mjs"), archive], {
    encoding: "utf8",
  });
  return { status, stdout };
}

test("an image within the budget passes, at each architecture", () => {
  const { status, stdout } = measure(archiveOf({ amd64: most * MIB, arm64: MIB }));
  expect(stdout).toBe(
    `amd64: ${most.toFixed(1)} MiB of at most ${most} (image to download, MiB)\narm64: 1.0 MiB of at most ${most} (image to download, MiB)\n`,
  );
  expect(status).toBe(0);
});

test("an image over the budget fails, also at one architecture, and so does an archive without an image", () => {
  expect(measure(archiveOf({ amd64: MIB, arm64: most * MIB + 1 })).status).toBe(1);
  expect(measure(archiveOf({})).status).toBe(1);
});

test("the image of each change is measured", () => {
  const workflow = readFileSync(join(root, ".github/workflows/ci.yaml"), "utf8");
  expect(workflow).toMatch(
    /outputs: "type=oci,dest=image\.tar"\}\n +- run: npm run image:size -- image\.tar\n/,
  );
});

test("the lists of licences and parts of an image for another architecture name its native part", () => {
  const [, script = ""] =
    /&& (sed -i .*sbom\.spdx\.json);/.exec(readFileSync(join(root, "Dockerfile"), "utf8")) ?? [];
  const dir = mkdtempSync(join(tmpdir(), "native-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, "dist"));
  const files = ["THIRD-PARTY-LICENSES", "sbom.spdx.json"].map((name) => join(dir, "dist", name));
  for (const file of files) writeFileSync(file, `koffi 1, @koromix/koffi-linux-${process.arch} 1`);
  execFileSync("sh", ["-ec", `cpu=other; ${script}`], { cwd: dir });
  for (const file of files) expect(readFileSync(file, "utf8")).toBe("koffi 1, @koromix/koffi-linux-other 1");
});
