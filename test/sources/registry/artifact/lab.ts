/** A module, keys and a registry in memory to push it to. */

import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

import {
  findModuleArtifact,
  moveTag,
  packDirectory,
  parseReference,
  pushModule,
  readPublicKeys,
  readSigningKey,
  RegistryClient,
  Repository,
  unpackModule,
  type FoundModule,
  type NamedRepository,
  type Signer,
} from "../../../../src/sources/registry/index.ts";
import { fakeRegistry, PASSWORD, USER, type FakeRegistry, type Switches } from "../../../support/registry.ts";
import type { Clock } from "../../../../src/base/index.ts";

export interface KeyPair {
  readonly privatePem: string;
  readonly publicPem: string;
}

export function keyPair(): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return {
    privatePem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    publicPem: publicKey.export({ type: "spki", format: "pem" }).toString(),
  };
}

export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "registry-"));
  // A write that an ended process has begun may still end.
  onTestFinished(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  return dir;
}

export const MODULE: Readonly<Record<string, string>> = {
  "Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.4.2\n",
  "hooks/start.sh": "#!/bin/sh\n",
  "templates/a.yaml": "",
};

export function moduleDir(files = MODULE): string {
  const dir = join(tempDir(), "010-web");
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text, { mode: path.startsWith("hooks/") ? 0o755 : 0o644 });
  }
  return dir;
}

export interface Lab {
  readonly registry: FakeRegistry;
  readonly key: KeyPair;
  /** Whose signatures count where nothing else is said: those of the key, as key0.pub. */
  signers: readonly Signer[];
  place(reference: string): NamedRepository;
  /** Pushes the module as `version`, signed by the lab's key or another, or by none; returns its digest. */
  push(
    version?: string,
    options?: {
      readonly key?: KeyPair | "none";
      readonly dir?: string;
      readonly name?: string;
      readonly repository?: string;
    },
  ): Promise<string>;
  find(reference?: string, keys?: readonly KeyPair[]): Promise<FoundModule>;
  /** Finds and unpacks; returns the directory. */
  pull(reference?: string): Promise<string>;
  tag(reference: string, tag: string): Promise<string>;
}

/** Waits no time. */
export const hurried: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(_, fn) {
    const timer = setImmediate(() => void fn());
    return { cancel: () => clearImmediate(timer) };
  },
};

/** `reference` is below `modules/`: `web:1.4.2`. */
export async function registryLab(switches: Switches = {}): Promise<Lab> {
  const registry = await fakeRegistry(switches);
  const key = keyPair();
  const client = new RegistryClient({
    host: registry.host,
    plainHttp: true,
    readLogin: () => ({ username: USER, password: PASSWORD }),
    clock: hurried,
  });
  onTestFinished(() => client.close());
  const lab: Lab = {
    registry,
    key,
    signers: readPublicKeys(key.publicPem, "key0.pub"),
    place(text) {
      const reference = parseReference(`oci://${registry.host}/modules/${text}`);
      return { reference, repository: new Repository(client, reference) };
    },
    async push(
      version = "1.4.2",
      { key: by = key, dir = moduleDir(), name = "web", repository = "web" } = {},
    ) {
      const packed = await packDirectory(dir);
      const signing = by === "none" ? undefined : readSigningKey(by.privatePem, "test.key", undefined);
      const pushed = await pushModule(lab.place(repository), {
        identity: { name, version },
        packed,
        key: signing,
      });
      return pushed.digest;
    },
    find: (reference = "web:1.4.2", keys) =>
      findModuleArtifact(
        lab.place(reference),
        keys?.flatMap(({ publicPem }, index) => readPublicKeys(publicPem, `key${index}.pub`)) ?? lab.signers,
      ),
    async pull(reference = "web:1.4.2") {
      const found = await lab.find(reference);
      const dir = join(tempDir(), "web");
      await unpackModule(lab.place(reference).repository, found, dir);
      return dir;
    },
    tag: (reference, tag) => moveTag(lab.place(reference), tag),
  };
  return lab;
}
