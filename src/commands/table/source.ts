/** The rows of `source`: modules as artifacts in a registry (docs/guides/registries.md). */

import { UsageError } from "../../config.ts";
import {
  textOfFlag,
  offlineRow,
  REGISTRY_FLAGS,
  parseRegistryAccess,
  type OfflineCommand,
} from "./offline.ts";
import type { Flag, CommandLine, CommandRow } from "./row.ts";

const PULL_SIGNER_REMEDY =
  "set --key FILE, or --identity FILE with --trusted-root FILE, or --unsigned to do without a signature";
const PUSH_SIGNER_REMEDY = "set --key FILE, or --unsigned to store the module without a signature";

/** Throws UsageError unless the command line has exactly one of: a flag that names a signer, and `--unsigned`. So nobody does without a signature by mistake. */
function requireSigner(line: CommandLine, signerFlags: readonly string[], remedy: string): void {
  const isNamed = signerFlags.some((name) => textOfFlag(line, name) !== undefined);
  if (isNamed === (line.flags["unsigned"] === true)) throw new UsageError([remedy]);
}

/** `source push`: reads its flags. Needs a key, or `--unsigned`. */
const pushCommand: OfflineCommand = (commands, line, { env }) => {
  const [dir = "", target = ""] = line.args;
  requireSigner(line, ["key"], PUSH_SIGNER_REMEDY);
  const request = {
    dir,
    target,
    key: textOfFlag(line, "key"),
    version: textOfFlag(line, "version"),
    tag: textOfFlag(line, "tag"),
    ...parseRegistryAccess(line),
  };
  return commands.pushSource(request, { settings: line.settings(env).settings, env });
};

/** `source tag`: reads its arguments. */
const tagCommand: OfflineCommand = (commands, line, { env }) => {
  const [reference = "", name = ""] = line.args;
  return commands.tagSource({ reference, tag: name, ...parseRegistryAccess(line) }, env);
};

/** `source pull`: reads its flags. Needs a key or an identity, or `--unsigned`. */
const pullCommand: OfflineCommand = (commands, line, { env }) => {
  const [reference = "", dir = ""] = line.args;
  requireSigner(line, ["key", "identity"], PULL_SIGNER_REMEDY);
  const request = {
    reference,
    dir,
    key: textOfFlag(line, "key"),
    identity: textOfFlag(line, "identity"),
    trustedRoot: textOfFlag(line, "trustedRoot"),
    ...parseRegistryAccess(line),
  };
  return commands.pullSource(request, env);
};

const KEY_FLAG: Flag = { flags: "--key <FILE>", help: "a private key in PEM: ECDSA P-256, or RSA" };

export const SOURCE_COMMANDS: readonly CommandRow[] = [
  offlineRow(
    {
      words: "source push",
      args: "DIR TARGET",
      help: "check a module, store it in a registry as TARGET/NAME:VERSION, and sign it",
      more: "A version is never replaced by other content. COSIGN_PASSWORD is the passphrase of an encrypted key.",
      example: "source push modules/010-cert-manager oci://registry.example.com/modules --key ci.key",
      flags: [
        KEY_FLAG,
        { flags: "--unsigned", help: "store the module without a signature" },
        { flags: "--version <VERSION>", help: "the version; default: that of Chart.yaml" },
        { flags: "--tag <TAG>", help: "another tag for it, such as a channel" },
        ...REGISTRY_FLAGS,
      ],
    },
    pushCommand,
  ),
  offlineRow(
    {
      words: "source tag",
      args: "REFERENCE TAG",
      help: "make a tag of a registry, such as a channel, name a version",
      example: "source tag oci://registry.example.com/modules/cert-manager:1.4.2 stable",
      flags: REGISTRY_FLAGS,
    },
    tagCommand,
  ),
  offlineRow(
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
        ...REGISTRY_FLAGS,
      ],
    },
    pullCommand,
  ),
];
