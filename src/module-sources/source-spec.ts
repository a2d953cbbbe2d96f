/** Reads ModuleSources: what the CRD cannot check is checked here, with one clear problem for each error. */

import { isRange, isVersion, parseDuration } from "../lib/index.ts";
import { ProblemError, type Problem } from "../model/index.ts";
import { isDigest, isTag } from "../registry/index.ts";
import type { IModuleSource } from "../status/index.ts";
import { describeNameProblem } from "./disk/module-links.ts";
import { checkModuleFields, parseMirrors, parseLocation } from "./fetch/location.ts";
import { parseUpdatePolicy, type ReportProblem } from "./update-policy.ts";
import type { SourceSpec, ModuleRequest } from "./types.ts";

const DEFAULT_INTERVAL_MS = 300_000;
const MIN_INTERVAL_MS = 30_000;

/** Parses and checks the spec of a ModuleSource. Throws ProblemError with all its problems. */
export function parseSourceSpec({ metadata, spec = {} }: IModuleSource): SourceSpec {
  const file = `ModuleSource ${metadata.name}`;
  const problems: Problem[] = [];
  const report: ReportProblem = (key, message, remedy) => problems.push({ file, key, message, remedy });
  const place = parseLocation(spec, report);
  const mirrors = parseMirrors(spec, place, report);
  const intervalMs = parseInterval(spec.interval, report);
  const modules = new Map<string, ModuleRequest>(Object.entries(spec.modules ?? {}));
  for (const [name, request] of modules) {
    checkModuleRequest(name, request, report);
    checkModuleFields(place, [name, request], report);
  }
  const update = parseUpdatePolicy(spec.update, report);
  if (problems.length > 0 || place === undefined) throw new ProblemError(...problems);
  const { plainHttp = false, secret, ca, suspend = false, verify } = spec;
  const keys = verify?.keys;
  return { ...place, mirrors, plainHttp, secret, ca, intervalMs, suspend, update, keys, modules };
}

function parseInterval(text: string | undefined, report: ReportProblem): number {
  if (text === undefined) return DEFAULT_INTERVAL_MS;
  const ms = parseDuration(text) ?? 0;
  if (ms < MIN_INTERVAL_MS)
    report("spec.interval", `"${text}" is no duration of at least 30s`, "write one such as 5m");
  return ms;
}

const REQUEST_REMEDY = "name a version or a range, a digest, or a tag: 1.4.2, ~1.4, sha256:…, stable";

/** Reports an invalid name of a module, and a request that does not name one content. */
function checkModuleRequest(name: string, request: ModuleRequest, report: ReportProblem): void {
  const key = `spec.modules.${name}`;
  const refused = describeNameProblem(name);
  if (refused !== undefined) report(key, refused, "name a module by its directory");
  const problem = describeRequestProblem(request);
  if (problem !== undefined) report(key, problem, REQUEST_REMEDY);
}

/** Describes what is wrong with a request: it needs a tag, or a version, or a digest with an optional exact version. */
function describeRequestProblem({ version, tag, digest }: ModuleRequest): string | undefined {
  const hasVersion = version !== undefined || digest !== undefined;
  if (tag === undefined && !hasVersion) return "has neither version nor digest nor tag";
  if (tag !== undefined && hasVersion) return "has a tag, and also a version or a digest";
  if (tag !== undefined) return isTag(tag) ? undefined : `"${tag}" is no tag`;
  return digest === undefined
    ? describeVersionProblem(version ?? "")
    : describeDigestProblem(version, digest);
}

function describeVersionProblem(version: string): string | undefined {
  return isVersion(version) || isRange(version) ? undefined : `"${version}" is neither a version nor a range`;
}

/** What is wrong with a digest and the version that goes with it. */
function describeDigestProblem(version: string | undefined, digest: string): string | undefined {
  if (!isDigest(digest)) return "has a digest that is no sha256 digest";
  const isExact = version === undefined || isVersion(version);
  return isExact ? undefined : `"${version}" is no exact version, which a digest needs`;
}
