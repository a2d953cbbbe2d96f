/** The rows of `source`: modules as artifacts in a registry (docs/guides/registries.md). */

import { UsageError } from "../../config.ts";
import { flagText, offline, REGISTRY, registryAccess, type Command } from "./offline.ts";
import type { Flag, Line, Row } from "./row.ts";

const UNSIGNED = "set --key FILE, or --unsigned to do without a signature";
const NOT_SIGNED = "set --key FILE, or --unsigned to store the module without a signature";

/** The file of --key; undefined only where the line says that there is none. */
function keyOf(line: Line, remedy: string): string | undefined {
  const key = flagText(line, "key");
  if ((key === undefined) !== (line.flags["unsigned"] === true)) throw new UsageError([remedy]);
  return key;
}

const push: Command = (commands, line, { env }) => {
  const [dir = "", target = ""] = line.args;
  const key = keyOf(line, NOT_SIGNED);
  const request = {
    dir,
    target,
    key,
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
  return commands.pullSource({ reference, dir, key: keyOf(line, UNSIGNED), ...registryAccess(line) }, env);
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
        { flags: "--unsigned", help: "do without a signature" },
        ...REGISTRY,
      ],
    },
    pull,
  ),
];
