/** The rows of `source`: modules as artifacts in a registry (docs/guides/registries.md). */

import { UsageError } from "../../config.ts";
import { flagText, offline, REGISTRY, registryAccess, type Command } from "./offline.ts";
import type { Flag, Line, Row } from "./row.ts";

const UNSIGNED =
  "set --key FILE, or --identity FILE with --trusted-root FILE, or --unsigned to do without a signature";
const NOT_SIGNED = "set --key FILE, or --unsigned to store the module without a signature";

/** Throws UsageError unless the line names a signer, or says that there is none. */
function requireSigner(line: Line, names: readonly string[], remedy: string): void {
  const isNamed = names.some((name) => flagText(line, name) !== undefined);
  if (isNamed === (line.flags["unsigned"] === true)) throw new UsageError([remedy]);
}

const push: Command = (commands, line, { env }) => {
  const [dir = "", target = ""] = line.args;
  requireSigner(line, ["key"], NOT_SIGNED);
  const request = {
    dir,
    target,
    key: flagText(line, "key"),
    version: flagText(line, "version"),
    tag: flagText(line, "tag"),
    ...registryAccess(line),
  };
  return commands.pushSource(request, { settings: line.settings(env).settings, env });
};

const tag: Command = (commands, line, { env }) => {
  const [reference = "", name = ""] = line.args;
  return commands.tagSource({ reference, tag: name, ...registryAccess(line) }, env);
};

const pull: Command = (commands, line, { env }) => {
  const [reference = "", dir = ""] = line.args;
  requireSigner(line, ["key", "identity"], UNSIGNED);
  const [key, identity, trustedRoot] = ["key", "identity", "trustedRoot"].map((name) => flagText(line, name));
  return commands.pullSource({ reference, dir, key, identity, trustedRoot, ...registryAccess(line) }, env);
};

const KEY: Flag = { flags: "--key <FILE>", help: "a private key in PEM: ECDSA P-256, or RSA" };

export const SOURCE_COMMANDS: readonly Row[] = [
  offline(
    {
      words: "source push",
      args: "DIR TARGET",
      help: "check a module, store it in a registry as TARGET/NAME:VERSION, and sign it",
      more: "A version is never replaced by other content. COSIGN_PASSWORD is the passphrase of an encrypted key.",
      example: "source push modules/010-cert-manager oci://registry.example.com/modules --key ci.key",
      flags: [
        KEY,
        { flags: "--unsigned", help: "store the module without a signature" },
        { flags: "--version <VERSION>", help: "the version; default: that of Chart.yaml" },
        { flags: "--tag <TAG>", help: "another tag for it, such as a channel" },
        ...REGISTRY,
      ],
    },
    push,
  ),
  offline(
    {
      words: "source tag",
      args: "REFERENCE TAG",
      help: "make a tag of a registry, such as a channel, name a version",
      example: "source tag oci://registry.example.com/modules/cert-manager:1.4.2 stable",
      flags: REGISTRY,
    },
    tag,
  ),
  offline(
    {
      words: "source pull",
      args: "REFERENCE DIR",
      help: "verify a module of a registry and unpack it into a new directory",
      more: "Nothing is unpacked without a valid signature.",
      example:
        "source pull oci://registry.example.com/modules/cert-manager:1.4.2 modules/010-cert-manager --key ci.pub",
      flags: [
        { flags: "--key <FILE>", help: "public keys in PEM; one signature by any of them is enough" },
        {
          flags: "--identity <FILE>",
          help: "issuer and subject whose certificates count, for signatures without a key",
        },
        {
          flags: "--trusted-root <FILE>",
          help: "authorities and logs for --identity, as Sigstore writes them",
        },
        { flags: "--unsigned", help: "do without a signature" },
        ...REGISTRY,
      ],
    },
    pull,
  ),
];
