/** Charts as artifacts, as helm pushes them: the archive of a chart is one of the layers. */

import { plainLine } from "../../lib/index.ts";
import { LARGEST_ARCHIVE } from "../charts/chart-repository.ts";
import { NotVerifiedError } from "../cosign/errors.ts";
import type { Signer } from "../cosign/identity.ts";
import { verifySignature } from "../cosign/verify.ts";
import type { Descriptor, Manifest } from "../manifest.ts";
import { referenceText } from "../reference.ts";
import { checkedManifest, findManifest, type Found, type ReadPlace } from "./module-artifact.ts";

const CONFIG = "application/vnd.cncf.helm.config.v1+json";
/** The second one is of helm before 3.7. */
const ARCHIVES: ReadonlySet<string> = new Set([
  "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
  "application/tar+gzip",
]);

/** An artifact whose signature is verified, if one is required. Its archive contains name and version. */
export type FoundChart = Pick<Found, "digest" | "layer" | "verified">;

/**
 * Finds a chart and verifies it: a signature by one of `signers`, and one layer with the archive. `signers` is undefined for
 * charts that need no signature. Throws RegistryError, NotVerifiedError, CannotVerifyError.
 */
export async function findChart(
  place: ReadPlace,
  signers: readonly Signer[] | undefined,
): Promise<FoundChart> {
  const { repository, reference } = place;
  const stored = await findManifest(place);
  const verified =
    signers === undefined ? undefined : await verifySignature(repository, stored.digest, signers);
  const layer = archiveOf(checkedManifest(stored, reference));
  if (typeof layer !== "string") return { digest: stored.digest, layer, verified };
  const text = referenceText({ ...reference, digest: stored.digest });
  throw new NotVerifiedError(`${text} is refused: ${plainLine(layer)}`);
}

/** The layer with the archive, or why the artifact is no chart. */
function archiveOf({ config, layers }: Manifest): Descriptor | string {
  const archives = layers.filter(({ mediaType }) => ARCHIVES.has(mediaType));
  const [archive] = archives;
  if (config.mediaType !== CONFIG) return `it is of type ${config.mediaType}, not a chart`;
  if (archive === undefined || archives.length !== 1) return `it has ${archives.length} archives of a chart`;
  return archive.size > LARGEST_ARCHIVE ? `it is larger than ${LARGEST_ARCHIVE >> 20} MiB` : archive;
}
