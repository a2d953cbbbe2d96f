/** What is kept of a rendered chart. */

import { adoptionChecksum, documentsOf, manifestChecksum, objectsOf } from "./manifest.ts";
import type { ObjectRef } from "./manifest.ts";

/** A rendered chart, as far as it is compared with others. */
export interface Rendered {
  readonly checksum: string;
  /** For comparing with a release that the Go operator made. */
  readonly adoptionChecksum: string;
  readonly objects: readonly ObjectRef[];
}

/** `manifests`: of the chart and of its hooks. */
export function renderedFrom(manifests: readonly string[]): Rendered {
  const documents = manifests.flatMap(documentsOf);
  return {
    checksum: manifestChecksum(documents),
    adoptionChecksum: adoptionChecksum(documents),
    objects: objectsOf(documents),
  };
}
