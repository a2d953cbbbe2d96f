// Certificates for a throw-away control plane, by openssl (elliptic curves: all of them take 0.1 s).
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";

const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/** Writes ca, apiserver, admin (.crt and .key) and the service-account key pair into `dir`. */
export function writePki(dir) {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const openssl = (...args) => run(dir, args);
  openssl(
    "req",
    "-x509",
    ...curve,
    "-keyout",
    "ca.key",
    "-out",
    "ca.crt",
    "-days",
    "365",
    "-subj",
    "/CN=throw-away-ca",
  );
  const names = "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc";
  sign(dir, { name: "apiserver", subject: "/CN=kube-apiserver", names });
  sign(dir, { name: "admin", subject: "/O=system:masters/CN=admin", names: "DNS:admin" });
  openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key");
  openssl("ec", "-in", "sa.key", "-pubout", "-out", "sa.pub");
}

function sign(dir, { name, subject, names }) {
  writeFileSync(
    join(dir, `${name}.ext`),
    `subjectAltName=${names}\nextendedKeyUsage=serverAuth,clientAuth\n`,
  );
  run(dir, ["req", ...curve, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", subject]);
  const ca = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"];
  run(dir, [
    "x509",
    "-req",
    "-in",
    `${name}.csr`,
    ...ca,
    "-out",
    `${name}.crt`,
    "-days",
    "365",
    "-extfile",
    `${name}.ext`,
  ]);
}

function run(dir, args) {
  const result = execaSync("openssl", args, { cwd: dir, stdin: "ignore", reject: false });
  if (result.code === "ENOENT")
    throw new Error("openssl is needed for the certificates of the control plane");
  if (result.failed) throw new Error(`openssl ${args[0]}: ${result.stderr || result.shortMessage}`);
}
