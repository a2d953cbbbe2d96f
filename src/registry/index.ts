export { findChart, type FoundChart } from "./artifact/chart-artifact.ts";
export {
  findModule,
  moveTag,
  pushModule,
  unpackModule,
  type FoundModule,
  type NamedRepository,
} from "./artifact/module-artifact.ts";
export { packDirectory } from "./artifact/pack.ts";
export { unpackLayer } from "./artifact/unpack.ts";
export { fetchIndex, type KnownIndex } from "./charts/chart-index.ts";
export { ChartRepository } from "./charts/chart-repository.ts";
export { normalizeChartLocation, isWithinLocations, isChartRepository } from "./charts/location.ts";
export { readIdentity, readTrustedRoot, type Signer } from "./cosign/identity.ts";
export { readPublicKeys, readSigningKey } from "./cosign/keys.ts";
export { CannotVerifyError, NotVerifiedError } from "./cosign/errors.ts";
export { RegistryClient } from "./http/client.ts";
export { findLogin, type Login } from "./http/docker-config.ts";
export { NoAnswerError, RegistryError } from "./http/errors.ts";
export type { Descriptor } from "./manifest.ts";
export { digestOf } from "./manifest.ts";
export {
  isDigest,
  isTag,
  parseReference,
  formatReference,
  versionToTag,
  type Reference,
} from "./reference.ts";
export { Repository, type ArtifactReader, type BlobReader, type StoredManifest } from "./repository.ts";
