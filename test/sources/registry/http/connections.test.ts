import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

import { certificate } from "../../../support/release-server.ts";
import { fakeRegistry } from "../../../support/registry.ts";
import { tempDir } from "../artifact/lab.ts";

// The trusted certificates are read from the environment once in a process, so that each case has a process of its own.

const SCRIPT = `
import { readFileSync } from "node:fs";
import { RegistryClient, Repository } from ${JSON.stringify(resolve("src/sources/registry/index.ts"))};
const [ca, ...hosts] = process.argv.slice(2);
for (const host of hosts) {
  const client = new RegistryClient({ host, ...(ca === "" ? {} : { ca: readFileSync(ca, "utf8") }) });
  const found = await new Repository(client, { name: "a/b" }).readManifest("t").catch(String);
  console.log(typeof found === "string" ? found : "trusted");
  await client.close();
}
`;

/** A registry with a certificate of its own. */
async function secureRegistry(): Promise<{ host: string; cert: string }> {
  const { key, cert } = certificate(tempDir());
  const registry = await fakeRegistry({
    tls: { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") },
  });
  registry.manifests.set("a/b@t", { bytes: Buffer.from("{}"), mediaType: "" });
  return { host: registry.host, cert };
}

it("a CA of a source is trusted in addition to those of Node and of the system", async () => {
  const [own, other] = [await secureRegistry(), await secureRegistry()];
  const script = join(tempDir(), "script.mjs");
  writeFileSync(script, SCRIPT);
  const run = async (ca: string, env: Record<string, string>): Promise<string[]> => {
    const { SSL_CERT_FILE: _, NODE_EXTRA_CA_CERTS: __, ...inherited } = process.env;
    const args = ["--no-warnings", script, ca, own.host, other.host];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env: { ...inherited, ...env } });
    return stdout.trim().split("\n");
  };
  const refused = expect.stringContaining("name the registry's CA with --ca-file") as string;
  const [none, extra, system] = await Promise.all([
    run("", {}),
    run(own.cert, { NODE_EXTRA_CA_CERTS: other.cert }),
    run(own.cert, { SSL_CERT_FILE: other.cert }),
  ]);
  expect(none).toEqual([refused, refused]);
  expect(extra).toEqual(["trusted", "trusted"]);
  expect(system).toEqual(["trusted", "trusted"]);
});
