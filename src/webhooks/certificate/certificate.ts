/** Certificates of the webhook server as PEM, and where they are read from if others issue them. */

import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { SECRETS, get } from "../../kube/index.ts";
import type { KubeAccess, Secret } from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";

/** What the server presents, and the CAs by which the API server recognizes it; all PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
  /** CAs of which only replicas of this operator have certificates: these may always connect. */
  readonly peerCa?: string;
}

/** Where the certificate comes from. */
export interface CertificateSource {
  /** Time between two readings, in ms. */
  readonly checkMs: number;
  /** Undefined if there is none yet. Throws if it cannot be read or is invalid. */
  read(): Promise<Certificate | undefined>;
}

/** The files of a Secret of type kubernetes.io/tls, with the CA that cert-manager adds. */
const FILES = { cert: "tls.crt", key: "tls.key", ca: "ca.crt" } as const;

const CHECK_MS = 60_000;

/** A directory with `tls.crt`, `tls.key` and `ca.crt`, which is read again each minute. */
export function mountedCertificate(dir: string): CertificateSource {
  return {
    checkMs: CHECK_MS,
    async read() {
      const text = (name: string): Promise<string> => readFile(join(dir, name), "utf8");
      const [cert, key, ca] = await Promise.all([text(FILES.cert), text(FILES.key), text(FILES.ca)]);
      return certificateFrom({ cert, key, ca }, dir);
    },
  };
}

/** A Secret that someone else writes, such as cert-manager; it is read again each minute. */
export function secretCertificate({ client, namespace }: KubeAccess, name: string): CertificateSource {
  return {
    checkMs: CHECK_MS,
    async read() {
      const { data = {} } = await get<Secret>(client, { resource: SECRETS, namespace, name });
      const text = (key: string): string => Buffer.from(data[key] ?? "", "base64").toString();
      const texts = { cert: text(FILES.cert), key: text(FILES.key), ca: text(FILES.ca) };
      return certificateFrom(texts, `Secret ${name}`);
    },
  };
}

/** Checks that the texts are certificates and that the key belongs to the first one. Throws ProblemError; `place` is for its message. */
export function certificateFrom(texts: Omit<Certificate, "peerCa">, place: string): Certificate {
  for (const part of ["cert", "key", "ca"] as const) {
    try {
      if (part === "key") checkKey(texts);
      else if (certificatesIn(texts[part]).length === 0) throw new Error("it contains no certificate");
    } catch (error) {
      const remedy = `write tls.crt, tls.key and ca.crt as PEM`;
      throw new ProblemError({ file: place, key: FILES[part], message: oneLine(error), remedy });
    }
  }
  return texts;
}

function checkKey({ cert, key }: Pick<Certificate, "cert" | "key">): void {
  if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return;
  throw new Error(`it is not the key of the certificate in ${FILES.cert}`);
}

/** The certificates of a bundle. Throws if one is malformed. */
export function certificatesIn(bundle: string): X509Certificate[] {
  const parts = bundle.split(/(?<=-----END CERTIFICATE-----)/).filter((part) => part.includes("-----BEGIN"));
  return parts.map((part) => new X509Certificate(part));
}
