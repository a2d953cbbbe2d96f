export {
  findChart,
  findModuleArtifact,
  moveTag,
  pushModule,
  unpackModule,
} from "./artifact/module-artifact.ts";
export type { FoundChart, FoundModule, NamedRepository } from "./artifact/module-artifact.ts";
export { packDirectory } from "./artifact/pack.ts";
export { unpackLayer } from "./artifact/unpack.ts";
export { ChartRepository, fetchIndex, type KnownIndex } from "./charts/chart-repository.ts";
export { readIdentity, readTrustedRoot, type Signer } from "./cosign/identity.ts";
export { readPublicKeys, readSigningKey } from "./cosign/keys.ts";
export { isSignatureTag, referrersTag, simpleSigningTag } from "./cosign/verify.ts";
export { RegistryClient } from "./http/client.ts";
export { describeCaProblem } from "./http/connections.ts";
export { findLogin, type Login } from "./http/docker-config.ts";
export { RegistryPauses } from "./http/pauses.ts";
export { CannotVerifyError, NoAnswerError, NotVerifiedError, RegistryError } from "./errors.ts";
export type { Descriptor } from "./manifest.ts";
export { digestOf } from "./manifest.ts";
export {
  isChartRepository,
  isDigest,
  isTag,
  isWithinLocations,
  normalizeChartLocation,
  parseReference,
  formatReference,
  versionToTag,
  type Reference,
} from "./reference.ts";
export { Repository, type ArtifactReader, type BlobReader, type StoredManifest } from "./repository.ts";
