import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe } from "vitest";

import { parseCrontab } from "../../src/cron/index.ts";
import { TimeZone } from "../../src/cron/time-zone.ts";
import { compileWithoutJq } from "../../src/filter/evaluate.ts";
import { compileCel } from "../../src/lib/expressions/cel.ts";
import { isInRange, isRange } from "../../src/lib/expressions/versions.ts";
import { parseJson, parseYaml, splitJsonValues, toYaml } from "../../src/lib/index.ts";
import { parseHelmIgnore } from "../../src/modules/chart/chart-files.ts";
import { unpackLayer } from "../../src/registry/artifact/unpack.ts";
import { IndexScanner } from "../../src/registry/charts/index-scan.ts";
import {
  buildBundle,
  buildSimpleSigningPayload,
  verifyBundle,
  verifySimpleSigning,
} from "../../src/registry/cosign/formats.ts";
import { readTrustedRoot } from "../../src/registry/cosign/identity.ts";
import { readPublicKeys, readSigningKey, signBytes } from "../../src/registry/cosign/keys.ts";
import { SIGNATURE_ANNOTATION } from "../../src/registry/cosign/formats.ts";
import { findLogin } from "../../src/registry/http/docker-config.ts";
import { findChallenge } from "../../src/registry/http/tokens.ts";
import { parseReference } from "../../src/registry/index.ts";
import { parseIndex, parseManifest } from "../../src/registry/manifest.ts";
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
const descriptor = { mediaType: "application/vnd.oci.image.layer.v1.tar+gzip", digest: DIGEST, size: 3 };
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

const texts: readonly Face[] = [
  {
    name: "YAML, and the same value written again",
    seeds: [
      "a: 1\nb: [x, {c: d}]\n",
      "t: |\n  one\n  two\n",
      '{"a": "\\u2028"}',
      "- 1e3\n- 0x1F\n- ~\n- 'x'\n",
    ],
    feed: (input) => {
      const { value } = parseYaml(input.toString(), "text");
      const again = parseYaml(toYaml(value), "text").value;
      if (JSON.stringify(again) !== JSON.stringify(value)) throw new TypeError(`written as ${toYaml(value)}`);
    },
  },
  {
    name: "JSON, and several values in a row",
    seeds: ['{"a":[1,2.5e3,"\\u00e9"]}', '{"a":1}{"b":2}\n[3]', "12345678901234567890", "[1.0,-0,1e999]"],
    feed: (input) => {
      for (const _ of splitJsonValues(input.toString())) continue;
      parseJson(input.toString());
    },
  },
  {
    name: "a crontab line",
    seeds: [
      "*/5 * * * *",
      "TZ=Europe/Berlin 0 9 * * MON-FRI",
      "@every 1h30m",
      "0 0 29 2 *",
      "1,2-4/2 * 1-31 JAN-MAR ?",
    ],
    feed: (input) => void parseCrontab(input.toString()).next(Date.UTC(2026, 0, 1), UTC),
  },
  {
    name: "a range of versions",
    seeds: [">=1.2.3 <2 || ^3.1", "~1.2 - 2.x", "1.0.0-beta.1+build", "v1.2.3"],
    feed: (input) => void (isRange(input.toString()) && isInRange("1.2.3", input.toString())),
  },
  {
    name: "a jq filter, with and without jq",
    seeds: [
      '.metadata.labels | to_entries | map("\\(.key)=\\(.value)")',
      "[.a[]? | select(.b == 1)] | length",
      ".a as $x | {b: $x}",
    ],
    feed: (input) =>
      compileWithoutJq(input.toString())?.({ a: [{ b: 1 }], metadata: { labels: { x: "y" } } }),
  },
  {
    name: "a CEL expression of requires",
    seeds: [
      "object.status.ready == true",
      "object.items.exists(i, i.name.startsWith('a'))",
      "has(object.a) && object.a > 1",
    ],
    feed: async (input) => {
      const test = await compileCel(input.toString());
      test({ status: { ready: true }, items: [{ name: "a" }], a: 2 });
    },
  },
  {
    name: ".helmignore",
    seeds: ["*.md\n!keep.md\n/dir/\n", "**/x\n", "[a-z]?.txt\n# note\n", "a/\\*\n"],
    feed: (input) => {
      const ignore = parseHelmIgnore(input.toString());
      for (const path of ["a.md", "dir/b.txt", "keep.md"]) ignore(path, false);
    },
  },
  {
    name: "a review of the API server",
    seeds: [
      '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","object":{}}}',
      '{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"a/v1","objects":[]}}',
    ],
    feed: (input) => parseReview(input.toString()),
  },
];

const registries: readonly Face[] = [
  {
    name: "a reference",
    seeds: ["oci://host:5000/a/b:1.0.0", `host/a@${DIGEST}`],
    feed: (input) => parseReference(input.toString()),
  },
  {
    name: "a manifest or an index",
    seeds: [
      JSON.stringify({ schemaVersion: 2, config: descriptor, layers: [descriptor], annotations: { a: "b" } }),
      JSON.stringify({ schemaVersion: 2, manifests: [descriptor] }),
    ],
    feed: (input) => {
      parseIndex(input);
      parseManifest(input);
    },
  },
  {
    name: "index.yaml",
    seeds: [
      "apiVersion: v1\nentries:\n  web:\n  - version: 1.0.0\n    urls:\n    - web-1.0.0.tgz\n    digest: abc\n",
      '{"entries":{"web":[{"version":"1.0.0","urls":["a.tgz"]}]}}',
      "entries:\n  web:\n    -\n      version: '2.0'\n      urls: [a, b]\n      description: >\n        long\n",
    ],
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
    seeds: [
      '{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[],"certificateAuthorities":[]}',
    ],
    feed: (input) => readTrustedRoot(input.toString(), "root"),
  },
  {
    name: "a docker config",
    seeds: [
      '{"auths":{"host":{"auth":"dXNlcjpwYXNz"},"https://other/v1/":{"username":"u","password":"p","identitytoken":"t"}}}',
    ],
    feed: (input) => findLogin(input.toString(), { host: "host", name: "a/b" }),
  },
  {
    name: "a challenge",
    seeds: [
      'Bearer realm="https://auth/token",service="registry",scope="repository:a:pull"',
      'Basic realm="x", Bearer realm="\\"y"',
    ],
    feed: (input) => findChallenge([input.toString()]),
  },
];

describe("parsers of text from outside read it or refuse it, in time and in bounded memory", () => {
  feedAll(texts);
});

describe("parsers of what registries send read it or refuse it, and accept no forged signature", () => {
  feedAll(registries);
});
