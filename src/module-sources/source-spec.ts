/** Reads ModuleSources: what the CRD cannot check is checked here, with one clear problem for each error. */

import { isRange, isVersion, parseDuration } from "../lib/index.ts";
import { ProblemError, type Problem } from "../model/index.ts";
import { isDigest, isTag } from "../registry/index.ts";
import type { IModuleSource } from "../status/index.ts";
import { linkProblem } from "./disk/module-links.ts";
import { checkTerms, readMirrors, readPlace } from "./fetch/location.ts";
import { readPolicy, type Report } from "./update-policy.ts";
import type { SourceSpec, ModuleRequest } from "./types.ts";

const DEFAULT_INTERVAL_MS = 300_000;
const LEAST_INTERVAL_MS = 30_000;

/** The spec of a ModuleSource. Throws ProblemError with everything that is wrong with it. */
export function readSpec({ metadata, spec = {} }: IModuleSource): SourceSpec {
  const file = `ModuleSource ${metadata.name}`;
  const problems: Problem[] = [];
  const report: Report = (key, message, remedy) => problems.push({ file, key, message, remedy });
  const place = readPlace(spec, report);
  const mirrors = readMirrors(spec, place, report);
  const intervalMs = intervalOf(spec.interval, report);
  const modules = new Map<string, ModuleRequest>(Object.entries(spec.modules ?? {}));
  for (const [name, request] of modules) {
    checkModuleRequest(name, request, report);
    checkTerms(place, [name, request], report);
  }
  const update = readPolicy(spec.update, report);
  if (problems.length > 0 || place === undefined) throw new ProblemError(...problems);
  const { plainHttp = false, secret, ca, suspend = false, verify } = spec;
  const keys = verify?.keys;
  return { ...place, mirrors, plainHttp, secret, ca, intervalMs, suspend, update, keys, modules };
}

function intervalOf(text: string | undefined, report: Report): number {
  if (text === undefined) return DEFAULT_INTERVAL_MS;
  const ms = parseDuration(text) ?? 0;
  if (ms < LEAST_INTERVAL_MS)
    report("spec.interval", `"${text}" is no duration of at least 30s`, "write one such as 5m");
  return ms;
}

const REQUEST_FORM = "name a version or a range, a digest, or a tag: 1.4.2, ~1.4, sha256:…, stable";

function checkModuleRequest(name: string, request: ModuleRequest, report: Report): void {
  const key = `spec.modules.${name}`;
  const refused = linkProblem(name);
  if (refused !== undefined) report(key, refused, "name a module by its directory");
  const problem = requestProblem(request);
  if (problem !== undefined) report(key, problem, REQUEST_FORM);
}

function requestProblem({ version, tag, digest }: ModuleRequest): string | undefined {
  const hasVersion = version !== undefined || digest !== undefined;
  if (tag === undefined && !hasVersion) return "has neither version nor digest nor tag";
  if (tag !== undefined && hasVersion) return "has a tag, and also a version or a digest";
  if (tag !== undefined) return isTag(tag) ? undefined : `"${tag}" is no tag`;
  return digest === undefined ? rangeProblem(version ?? "") : pinProblem(version, digest);
}

function rangeProblem(version: string): string | undefined {
  return isVersion(version) || isRange(version) ? undefined : `"${version}" is neither a version nor a range`;
}

/** What is wrong with a digest and the version that goes with it. */
function pinProblem(version: string | undefined, digest: string): string | undefined {
  if (!isDigest(digest)) return "has a digest that is no sha256 digest";
  const isExact = version === undefined || isVersion(version);
  return isExact ? undefined : `"${version}" is no exact version, which a digest needs`;
}
