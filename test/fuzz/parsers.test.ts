import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe } from "vitest";

import { parseCrontab } from "../../src/hooks/cron/index.ts";
import { TimeZone } from "../../src/hooks/cron/time-zone.ts";
import { compileWithoutJq } from "../../src/hooks/filter/evaluate.ts";
import { compileCel } from "../../src/base/expressions/cel.ts";
import { isInRange, isRange } from "../../src/base/expressions/versions.ts";
import { parseJson, parseYaml, splitJsonValues, toYaml } from "../../src/base/index.ts";
import { parseHookEvents, manifestChecksum, parseDocuments } from "../../src/helm/manifest/manifest.ts";
import {
  findApplyWarnings,
  findFloatWarnings,
  findManifestProblems,
  findWebhookWarnings,
} from "../../src/helm/manifest/rendered-problems.ts";
import { scanTemplates } from "../../src/helm/chart/template-scan.ts";
import { parseActions } from "../../src/helm/chart/template-tokens.ts";
import { OutputError } from "../../src/hooks/index.ts";
import { parseAdmission, parseConversion } from "../../src/hooks/output/response-files.ts";
import { findAddonProblem } from "../../src/modules/chart/addon-file.ts";
import { readChartWord, readChartYaml } from "../../src/modules/chart/find-chart.ts";
import { parseDuration } from "../../src/base/time/duration.ts";
import { compileSchemas } from "../../src/values/schema/schemas.ts";
import { parseMap } from "../../src/values/static-values.ts";
import { readRetryAfter } from "../../src/sources/registry/http/pauses.ts";
import { parseHelmIgnore } from "../../src/modules/chart/chart-files.ts";
import { unpackLayer } from "../../src/sources/registry/artifact/unpack.ts";
import { IndexScanner } from "../../src/sources/registry/charts/index-scan.ts";
import {
  buildBundle,
  buildSimpleSigningPayload,
  verifyBundle,
  verifySimpleSigning,
} from "../../src/sources/registry/cosign/formats.ts";
import { readIdentity, readTrustedRoot } from "../../src/sources/registry/cosign/identity.ts";
import type { TrustedRoot } from "../../src/sources/registry/cosign/identity.ts";
import { readPublicKeys, readSigningKey, signBytes } from "../../src/sources/registry/cosign/keys.ts";
import { SIGNATURE_ANNOTATION } from "../../src/sources/registry/cosign/formats.ts";
import { findLogin } from "../../src/sources/registry/http/docker-config.ts";
import { findChallenge } from "../../src/sources/registry/http/tokens.ts";
import { parseReference } from "../../src/sources/registry/index.ts";
import { parseIndex, parseManifest } from "../../src/sources/registry/manifest.ts";
import { parseReview } from "../../src/webhooks/review.ts";
import { feedAll } from "./feed.ts";
import type { Face } from "./feed.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;
const { privateKey } = generateKeyPairSync("ec", {
  namedCurve: "P-256",
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
  publicKeyEncoding: { type: "spki", format: "pem" },
});
const key = readSigningKey(privateKey, "key", undefined);
const payload = buildSimpleSigningPayload("oci://registry.example.com/web", DIGEST);
const UTC = new TimeZone("UTC");
const dir = mkdtempSync(join(tmpdir(), "fuzz-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** One file in an archive, as `tar` writes it. */
function archive(name: string, content: string): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write(`${content.length.toString(8).padStart(11, "0")}\0`, 124);
  header.write("        0ustar\x0000", 148);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  const body = Buffer.alloc(512);
  body.write(content);
  return Buffer.concat([header, body, Buffer.alloc(1024)]);
}

/** What a signature verifies is only what was signed: another text that is accepted is a fault. */
function onlyGenuine(
  genuine: Buffer,
  verify: (input: Buffer) => Promise<unknown>,
): (input: Buffer) => Promise<void> {
  return async (input) => {
    await verify(input);
    if (!input.equals(genuine) && !isSameJson(input, genuine))
      throw new TypeError(`accepted: ${input.toString()}`);
  };
}

const isSameJson = (a: Buffer, b: Buffer): boolean => signedPart(a) === signedPart(b);

/** The signed text of a bundle; of a payload, the payload. */
function signedPart(bytes: Buffer): string {
  const value = JSON.parse(bytes.toString()) as { dsseEnvelope?: { payload?: string } };
  return Buffer.from(value.dsseEnvelope?.payload ?? bytes.toString("base64"), "base64").toString();
}

const bundle = buildBundle(key, DIGEST);
/** Identities are read without a look into it. */
const someRoot = {} as TrustedRoot;

const texts: readonly Face[] = [
  {
    name: "YAML, and the same value written again",
    kind: "yaml",
    feed: (input) => {
      const { value } = parseYaml(input.toString(), "text");
      const again = parseYaml(toYaml(value), "text").value;
      if (JSON.stringify(again) !== JSON.stringify(value)) throw new TypeError(`written as ${toYaml(value)}`);
    },
  },
  {
    name: "JSON, and several values in a row",
    kind: "json",
    feed: (input) => {
      for (const _ of splitJsonValues(input.toString())) continue;
      parseJson(input.toString());
    },
  },
  {
    name: "a crontab line",
    kind: "crontab",
    feed: (input) => void parseCrontab(input.toString()).next(Date.UTC(2026, 0, 1), UTC),
  },
  {
    name: "a range of versions",
    kind: "versions",
    feed: (input) => void (isRange(input.toString()) && isInRange("1.2.3", input.toString())),
  },
  {
    name: "a jq filter, with and without jq",
    kind: "jq",
    feed: (input) =>
      compileWithoutJq(input.toString())?.({ a: [{ b: 1 }], metadata: { labels: { x: "y" } } }),
  },
  {
    name: "a CEL expression of requires",
    kind: "cel",
    feed: async (input) => {
      const test = await compileCel(input.toString());
      test({ status: { ready: true }, items: [{ name: "a" }], a: 2 });
    },
  },
  {
    name: ".helmignore",
    kind: "helmignore",
    feed: (input) => {
      const ignore = parseHelmIgnore(input.toString());
      for (const path of ["a.md", "dir/b.txt", "keep.md"]) ignore(path, false);
    },
  },
  {
    name: "a review of the API server",
    kind: "review",
    feed: (input) => parseReview(input.toString()),
  },
];

const modules: readonly Face[] = [
  {
    name: "addon.yaml",
    kind: "requires",
    feed: (input) => {
      const { value } = parseMap(input.toString(), "addon.yaml");
      findAddonProblem(value, "addon.yaml");
    },
  },
  {
    name: "Chart.yaml",
    kind: "chart-yaml",
    feed: (input) => {
      writeFileSync(join(dir, "Chart.yaml"), input);
      const chart = readChartYaml(dir);
      for (const key of ["name", "version"] as const) readChartWord(chart, key);
    },
  },
  {
    name: "an OpenAPI schema, and values for it",
    kind: "schema",
    feed: (input) => {
      const file = { file: "/openapi/values.yaml", text: input.toString() };
      const schemas = compileSchemas({
        config: { ...file, file: "/openapi/config-values.yaml" },
        values: file,
      });
      for (const value of [{}, { a: "a".repeat(50), b: 1 }, { a: { a: { a: 1 } } }, []]) {
        schemas.validateConfig(schemas.fillConfigDefaults(value));
        schemas.validateHelm(schemas.fillValuesDefaults(value));
      }
    },
  },
  {
    name: "a rendered manifest",
    kind: "helm-manifest",
    feed: (input) => {
      const documents = parseDocuments(input.toString());
      for (const find of [findManifestProblems, findWebhookWarnings, findApplyWarnings, findFloatWarnings])
        find(documents);
      manifestChecksum(documents);
      for (const each of documents) parseHookEvents(each);
    },
  },
  {
    name: "a template of a chart",
    kind: "template",
    feed: (input) => {
      parseActions(input.toString());
      scanTemplates([input.toString(), '{{ include "a" . }}']);
    },
  },
  { name: "a duration", kind: "duration", feed: (input) => void parseDuration(input.toString()) },
  {
    name: "what a webhook's hook answers",
    kind: "admission-answer",
    feed: (input) => {
      for (const parse of [parseAdmission, parseConversion])
        try {
          parse(input.toString());
        } catch (error) {
          if (!(error instanceof OutputError)) throw error;
        }
    },
  },
];

const registries: readonly Face[] = [
  {
    name: "a reference",
    kind: "reference",
    feed: (input) => parseReference(input.toString()),
  },
  {
    name: "a manifest or an index",
    kind: "manifest",
    feed: (input) => {
      parseIndex(input);
      parseManifest(input);
    },
  },
  {
    name: "index.yaml",
    kind: "index",
    feed: (input) => {
      const scanner = new IndexScanner(["web"]);
      const text = input.toString();
      const middle = Math.floor(text.length / 2);
      scanner.addText(text.slice(0, middle));
      scanner.addText(text.slice(middle));
      scanner.finish();
    },
  },
  {
    name: "a layer",
    seeds: [gzipSync(archive("web/Chart.yaml", "name: web")), gzipSync(archive("../x", "y"))],
    feed: (input) => unpackLayer(input, join(dir, "layer")),
  },
  {
    name: "the content of a layer",
    seeds: [archive("web/Chart.yaml", "name: web"), archive("a/b/c", "")],
    feed: (input) => unpackLayer(gzipSync(input), join(dir, "layer")),
  },
  {
    name: "a simple-signing signature",
    seeds: [payload],
    feed: onlyGenuine(payload, (input) => {
      const annotations = { [SIGNATURE_ANNOTATION]: signBytes(key, payload).toString("base64") };
      return verifySimpleSigning([key], DIGEST, { payload: input, annotations });
    }),
  },
  {
    name: "a bundle",
    seeds: [bundle],
    feed: onlyGenuine(bundle, (input) => verifyBundle([key], DIGEST, input)),
  },
  {
    name: "public keys",
    seeds: [privateKey.replaceAll("PRIVATE", "PUBLIC")],
    feed: (input) => readPublicKeys(input.toString(), "keys"),
  },
  {
    name: "a trusted root",
    kind: "trusted-root",
    feed: (input) => readTrustedRoot(input.toString(), "root"),
  },
  {
    name: "an identity",
    kind: "identity",
    feed: (input) => void readIdentity(input.toString(), "identity", someRoot),
  },
  {
    name: "Retry-After",
    kind: "retry-after",
    feed: (input) => {
      const pause = readRetryAfter(input.toString(), Date.UTC(2026, 0, 1));
      if (pause !== undefined && !(pause >= 0)) throw new TypeError(`a pause of ${pause} ms`);
    },
  },
  {
    name: "a docker config",
    kind: "docker-config",
    feed: (input) => findLogin(input.toString(), { host: "host", name: "a/b" }),
  },
  {
    name: "a challenge",
    kind: "challenge",
    feed: (input) => findChallenge([input.toString()]),
  },
];

describe("parsers of text from outside read it or refuse it, in time and in bounded memory", () => {
  feedAll(texts);
});

describe("readers of what modules contain read it or refuse it, in time and in bounded memory", () => {
  feedAll(modules);
});

describe("parsers of what registries send read it or refuse it, and accept no forged signature", () => {
  feedAll(registries);
});
