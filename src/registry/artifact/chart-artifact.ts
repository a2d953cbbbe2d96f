/** Charts as artifacts, as helm pushes them: the archive of a chart is one of the layers. */

import { plainLine } from "../../lib/index.ts";
import { MAX_ARCHIVE_BYTES } from "../charts/chart-repository.ts";
import { NotVerifiedError } from "../cosign/errors.ts";
import type { Signer } from "../cosign/identity.ts";
import { verifySignature } from "../cosign/verify.ts";
import type { Descriptor, Manifest } from "../manifest.ts";
import { formatReference } from "../reference.ts";
import {
  parseManifestOrRefuse,
  fetchManifest,
  type FoundModule,
  type ReadableRepository,
} from "./module-artifact.ts";

const CHART_CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json";
/** Media types of the layer with the archive; helm before 3.7 wrote the second one. */
const CHART_ARCHIVE_TYPES: ReadonlySet<string> = new Set([
  "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
  "application/tar+gzip",
]);

/**
 * A chart in a registry whose manifest and, if required, signature are verified. Name and version are in its archive,
 * which is not fetched yet.
 */
export type FoundChart = Pick<FoundModule, "digest" | "layer" | "verified">;

/**
 * Reads the manifest of a chart, verifies its signature by one of `signers`, and finds the layer with the archive.
 * `signers` is undefined for charts that need no signature. Throws RegistryError, NotVerifiedError,
 * CannotVerifyError.
 */
export async function findChart(
  source: ReadableRepository,
  signers: readonly Signer[] | undefined,
): Promise<FoundChart> {
  const { repository, reference } = source;
  const stored = await fetchManifest(source);
  const verified =
    signers === undefined ? undefined : await verifySignature(repository, stored.digest, signers);
  const layer = findArchiveLayer(parseManifestOrRefuse(stored, reference));
  if (typeof layer !== "string") return { digest: stored.digest, layer, verified };
  const artifact = formatReference({ ...reference, digest: stored.digest });
  throw new NotVerifiedError(`${artifact} is refused: ${plainLine(layer)}`);
}

/** Returns the layer with the archive, or the reason why the artifact is no chart that can be used. */
function findArchiveLayer({ config, layers }: Manifest): Descriptor | string {
  const archives = layers.filter(({ mediaType }) => CHART_ARCHIVE_TYPES.has(mediaType));
  const [archive] = archives;
  if (config.mediaType !== CHART_CONFIG_TYPE) return `it is of type ${config.mediaType}, not a chart`;
  if (archive === undefined || archives.length !== 1) return `it has ${archives.length} archives of a chart`;
  return archive.size > MAX_ARCHIVE_BYTES ? `it is larger than ${MAX_ARCHIVE_BYTES >> 20} MiB` : archive;
}
