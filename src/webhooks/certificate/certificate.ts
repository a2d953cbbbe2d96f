/** Certificates of the webhook server as PEM, and how to read them if another program issues them. */

import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { SECRETS, get } from "../../kube/index.ts";
import type { KubeAccess, Secret } from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";

/** The server's certificate and key, and the CAs by which the API server verifies it; all PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
  /** CAs that sign certificates of this operator's replicas only. Clients with such a certificate may always connect. */
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

/** Time between two readings of a certificate of another program, which renews it long before its end. */
const CHECK_MS = 60_000;

/** Reads the certificate from a directory with `tls.crt`, `tls.key` and `ca.crt`, such as a mounted Secret. */
export function mountedCertificateSource(dir: string): CertificateSource {
  return {
    checkMs: CHECK_MS,
    async read() {
      const text = (name: string): Promise<string> => readFile(join(dir, name), "utf8");
      const [cert, key, ca] = await Promise.all([text(FILES.cert), text(FILES.key), text(FILES.ca)]);
      return checkCertificate({ cert, key, ca }, dir);
    },
  };
}

/** Reads the certificate from a Secret that another program such as cert-manager writes. */
export function secretCertificateSource({ client, namespace }: KubeAccess, name: string): CertificateSource {
  return {
    checkMs: CHECK_MS,
    async read() {
      const { data = {} } = await get<Secret>(client, { resource: SECRETS, namespace, name });
      const text = (key: string): string => Buffer.from(data[key] ?? "", "base64").toString();
      const texts = { cert: text(FILES.cert), key: text(FILES.key), ca: text(FILES.ca) };
      return checkCertificate(texts, `Secret ${name}`);
    },
  };
}

/** Returns the texts if they are certificates and a key that belongs to `cert`. Throws ProblemError, which names `location`. */
export function checkCertificate(texts: Omit<Certificate, "peerCa">, location: string): Certificate {
  for (const part of ["cert", "key", "ca"] as const) {
    try {
      if (part === "key") checkKey(texts);
      else if (parseCertificates(texts[part]).length === 0) throw new Error("it contains no certificate");
    } catch (error) {
      const remedy = `write tls.crt, tls.key and ca.crt as PEM`;
      throw new ProblemError({ file: location, key: FILES[part], message: oneLine(error), remedy });
    }
  }
  return texts;
}

/** Throws if the key does not belong to the certificate. */
function checkKey({ cert, key }: Pick<Certificate, "cert" | "key">): void {
  if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return;
  throw new Error(`it is not the key of the certificate in ${FILES.cert}`);
}

/** Parses the certificates of a PEM bundle. Throws if one is malformed. */
export function parseCertificates(bundle: string): X509Certificate[] {
  const parts = bundle.split(/(?<=-----END CERTIFICATE-----)/).filter((part) => part.includes("-----BEGIN"));
  return parts.map((part) => new X509Certificate(part));
}
