// Checks what the image of each architecture takes to download against test/budgets.json: `npm run image:size -- image.tar`, an OCI
// archive of `docker build`. Plain Node 20, no dependencies.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./setup/versions.mjs";

const BUDGET = "image to download, MiB";
const MIB = 2 ** 20;

const [archive] = process.argv.slice(2);
if (archive === undefined) throw new Error("run npm run image:size -- FILE.tar");

const read = (path) => JSON.parse(execFileSync("tar", ["-xOf", archive, path], { encoding: "utf8" }));
const readBlob = ({ digest }) => read(`blobs/${digest.replace(":", "/")}`);

/** The images of an index, which can be the entry of another index, each with its architecture. */
function listImages({ manifests }) {
  return manifests.flatMap((entry) => {
    const content = readBlob(entry);
    if (content.manifests !== undefined) return listImages(content);
    const { architecture = "image" } = entry.platform ?? {};
    // Attestations are for no platform.
    return architecture === "unknown" ? [] : { architecture, ...content };
  });
}

const most = JSON.parse(readFileSync(join(root, "test", "budgets.json"), "utf8"))[BUDGET];
const images = listImages(read("index.json"));
if (images.length === 0) throw new Error(`${archive} contains no image`);
for (const { architecture, config, layers } of images) {
  const bytes = [config, ...layers].reduce((sum, { size }) => sum + size, 0);
  console.log(`${architecture}: ${(bytes / MIB).toFixed(1)} MiB of at most ${most} (${BUDGET})`);
  if (bytes > most * MIB) process.exitCode = 1;
}
