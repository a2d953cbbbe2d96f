// A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager. Used by tests, demo and benchmark.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { startDaemon } from "./control-plane/daemon.mjs";
import { writePki } from "./control-plane/pki.mjs";
import { freePorts } from "./control-plane/ports.mjs";
import { tools } from "./setup/tools.mjs";

const START_DEADLINE_MS = 60_000;
/** Programs in Go collect no garbage in a life of a tenth of a second. */
const SHORT_LIVED = { GOGC: "off", GOMEMLIMIT: "256MiB" };

/**
 * Starts a control plane and waits until it answers. `dir` (default: a new temp dir) takes keys, data and logs and is
 * removed by `stop()`. `controllerManager: false` starts half a second sooner, without garbage collection and
 * namespace deletion. `tools` names what `bin` holds, default all. Nothing of it outlives this process.
 * @param {{ dir?: string, controllerManager?: boolean, tools?: string[], apiServerArgs?: string[], controllerManagerArgs?: string[] }} [options]
 */
export async function startCluster(options = {}) {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), "control-plane-"));
  mkdirSync(join(dir, "pki"), { recursive: true, mode: 0o700 });
  const plane = {
    dir,
    bin: tools(process.env, options.tools),
    ports: await freePorts(4),
    options,
    running: {},
  };
  try {
    // It needs none of the certificates: they are made while it starts.
    startEtcd(plane);
    writePki(join(dir, "pki"));
    const kubeconfig = writeKubeconfig(plane);
    await startApiServer(plane);
    if (options.controllerManager !== false) await startControllerManager(plane);
    return handle(plane, kubeconfig);
  } catch (error) {
    await stopAll(plane);
    throw error;
  }
}

function handle(plane, kubeconfig) {
  const { dir, bin, running } = plane;
  return {
    dir,
    bin,
    kubeconfig,
    server: serverOf(plane),
    /** Process ids by name, as they are now. */
    pids: () => Object.fromEntries(Object.values(running).map(({ name, pid }) => [name, pid])),
    /** Runs kubectl as administrator; resolves to its standard output. */
    kubectl: (args, input) => kubectl({ bin, kubeconfig }, args, input),
    /** Ends the API server (default: at once, as a crash does) and leaves etcd with everything stored. */
    stopApiServer: (signal = "SIGKILL") => running.apiServer.stop(signal),
    /** Starts it again at the same address; resolves when it answers. */
    startApiServer: () => startApiServer(plane),
    /** For a cluster that was started without it; resolves when it answers. */
    startControllerManager: () => startControllerManager(plane),
    /** Both, one after the other. */
    async restartApiServer(signal = "SIGKILL") {
      await running.apiServer.stop(signal);
      await startApiServer(plane);
    },
    /**
     * Ends both, calls `change` with etcd's data directory, and starts them again; resolves when the API
     * server answers.
     */
    async withEtcdStopped(change) {
      await running.apiServer.stop("SIGKILL");
      await running.etcd.stop();
      await change(etcdDir(plane));
      startEtcd(plane);
      await startApiServer(plane);
    },
    /** Ends everything and removes the directory. */
    stop: () => stopAll(plane),
  };
}

/**
 * Runs kubectl; rejects with what it printed on stderr.
 * @param {{ bin: Record<string, string>, kubeconfig: string }} cluster
 * @param {readonly string[]} args
 * @param {string} [input]
 * @returns {Promise<string>}
 */
export async function kubectl({ bin, kubeconfig }, args, input = "") {
  const env = { ...SHORT_LIVED, KUBECONFIG: kubeconfig };
  const options = { env, input, reject: false, stripFinalNewline: false, maxBuffer: 256 * 1024 * 1024 };
  const result = await execa(bin.kubectl, args, options);
  if (!result.failed) return result.stdout;
  throw new Error(`kubectl ${args.join(" ")}: ${result.stderr?.trim() || result.shortMessage}`);
}

const serverOf = ({ ports }) => `https://127.0.0.1:${ports[2]}`;

function daemon(plane, name, args) {
  const { dir, bin } = plane;
  return startDaemon({ name, file: bin[name], args, cwd: join(dir, "pki"), log: join(dir, `${name}.log`) });
}

/** `{a: 1}` → `["--a=1"]`. */
const flags = (values) => Object.entries(values).map(([name, value]) => `--${name}=${value}`);

const etcdDir = ({ dir }) => join(dir, "etcd");

function startEtcd(plane) {
  const [client, peer] = plane.ports.map((port) => `http://127.0.0.1:${port}`);
  const args = flags({
    "data-dir": etcdDir(plane),
    "unsafe-no-fsync": true,
    "log-level": "warn",
    "listen-client-urls": client,
    "advertise-client-urls": client,
    "listen-peer-urls": peer,
    "initial-advertise-peer-urls": peer,
    "initial-cluster": `default=${peer}`,
  });
  plane.running.etcd = daemon(plane, "etcd", args);
}

async function startApiServer(plane) {
  const args = flags({
    "etcd-servers": `http://127.0.0.1:${plane.ports[0]}`,
    "bind-address": "127.0.0.1",
    "secure-port": plane.ports[2],
    "tls-cert-file": "apiserver.crt",
    "tls-private-key-file": "apiserver.key",
    "client-ca-file": "ca.crt",
    "service-account-key-file": "sa.pub",
    "service-account-signing-key-file": "sa.key",
    "service-account-issuer": "https://kubernetes.default.svc",
    "service-cluster-ip-range": "10.96.0.0/16",
    "authorization-mode": "RBAC,Node",
    "allow-privileged": true,
    "disable-admission-plugins": "ServiceAccount",
    "endpoint-reconciler-type": "none",
  });
  plane.running.apiServer = daemon(plane, "kube-apiserver", [
    ...args,
    ...(plane.options.apiServerArgs ?? []),
  ]);
  await answers(plane, plane.running.apiServer, `${serverOf(plane)}/readyz`);
}

async function startControllerManager(plane) {
  const port = plane.ports[3];
  const args = flags({
    kubeconfig: join(plane.dir, "kubeconfig"),
    "leader-elect": false,
    "service-account-private-key-file": "sa.key",
    "root-ca-file": "ca.crt",
    "bind-address": "127.0.0.1",
    "secure-port": port,
    "cert-dir": join(plane.dir, "kcm"),
  });
  const all = [...args, ...(plane.options.controllerManagerArgs ?? [])];
  plane.running.controllerManager = daemon(plane, "kube-controller-manager", all);
  await answers(plane, plane.running.controllerManager, `https://127.0.0.1:${port}/healthz`);
}

/** Polls until the URL answers 200; ends early, with its log, when the process or etcd has ended. */
async function answers(plane, process, url) {
  const pki = (name) => readFileSync(join(plane.dir, "pki", name));
  const credentials = {
    ca: pki("ca.crt"),
    cert: pki("admin.crt"),
    key: pki("admin.key"),
    rejectUnauthorized: false,
  };
  const deadline = Date.now() + START_DEADLINE_MS;
  while ((await statusOf(url, credentials)) !== 200) {
    process.check();
    plane.running.etcd.check();
    if (Date.now() > deadline)
      throw new Error(`${process.name} does not answer after ${START_DEADLINE_MS / 1000} s`);
    await sleep(50);
  }
}

function statusOf(url, credentials) {
  return new Promise((done) => {
    const call = request(url, { ...credentials, agent: false, timeout: 2000 }, (response) => {
      response.resume();
      response.on("end", () => done(response.statusCode));
      response.on("error", () => done(undefined));
    });
    call.on("timeout", () => call.destroy());
    call.on("error", () => done(undefined));
    call.end();
  });
}

/** Kills all, because the data is discarded. The API server ends before etcd, which it needs to end. */
async function stopAll({ dir, running }) {
  for (const each of [running.controllerManager, running.apiServer, running.etcd])
    await each?.stop("SIGKILL");
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
}

function writeKubeconfig(plane) {
  const base64 = (name) => readFileSync(join(plane.dir, "pki", name)).toString("base64");
  const cluster = {
    server: serverOf(plane),
    "certificate-authority-data": base64("ca.crt"),
    // On loopback, packing takes longer than sending.
    "disable-compression": true,
  };
  const user = { "client-certificate-data": base64("admin.crt"), "client-key-data": base64("admin.key") };
  const file = join(plane.dir, "kubeconfig");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "throw-away",
    clusters: [{ name: "throw-away", cluster }],
    users: [{ name: "admin", user }],
    contexts: [{ name: "throw-away", context: { cluster: "throw-away", user: "admin" } }],
  };
  writeFileSync(file, JSON.stringify(config, null, 2), { mode: 0o600 });
  return file;
}
