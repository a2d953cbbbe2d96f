/** Creates and upgrades the operator's own CRDs. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { oneLine, type Logger } from "../../lib/index.ts";
import type { CrdTools } from "./crd.ts";
import { applyCrds, readCrds } from "./ensure-crds.ts";

const OWN_FILES = ["addonmodules.yaml", "addonoperators.yaml"];

interface OwnCrdTools extends Pick<CrdTools, "client" | "clock"> {
  readonly logger: Logger;
}

/** Creates or upgrades the operator's own CRDs; without the right to do so, logs that once and goes on. */
export async function applyOwnCrds({ client, clock, logger }: OwnCrdTools): Promise<void> {
  try {
    // helm installs the same definitions with the chart, and would refuse to change them if they had another owner.
    await applyCrds(readCrds(OWN_FILES.map(fileOf)), { client, clock, fieldManager: "helm" });
  } catch (error) {
    logger.warn("The CRDs of the operator could not be applied; statuses need them", {
      error: oneLine(error),
    });
  }
}

/** Beside the bundle, or in the source tree. */
function fileOf(name: string): string {
  const places = [`./crds/${name}`, `../../../crds/${name}`].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  return places.find((path) => existsSync(path)) ?? places[0] ?? name;
}
