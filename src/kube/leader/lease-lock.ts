/** The Lease object, and the identity of its holder. */

import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

import { attempt } from "../../lib/index.ts";
import { readStatSync } from "../../process/index.ts";
import { isNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { create, get, replace } from "../client/verbs.ts";
import { LEASES, type LeaseObject, type LeaseSpec } from "../resources.ts";

/** Time limit of a request, and its abort signal. */
export interface LeaseDurations {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

interface LeaseTarget {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
}

/** One Lease, with optimistic concurrency: a write of a stale version is a conflict. */
export class LeaseLock {
  readonly #lease: LeaseTarget;
  #observed: LeaseObject | undefined;

  constructor(lease: LeaseTarget) {
    this.#lease = lease;
  }

  /** Its spec; undefined = the Lease does not exist. */
  async read(limits: LeaseDurations): Promise<LeaseSpec | undefined> {
    const { client, ...target } = this.#lease;
    try {
      this.#observed = await get<LeaseObject>(client, { resource: LEASES, ...target }, limits);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#observed = undefined;
    }
    return this.#observed && (this.#observed.spec ?? {});
  }

  async create(spec: LeaseSpec, limits: LeaseDurations): Promise<void> {
    const { client, namespace, name } = this.#lease;
    const metadata = { name, namespace };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    this.#observed = await create<LeaseObject>(client, { resource: LEASES, namespace }, { ...limits, body });
  }

  /** Replaces the version that was read or written last. Throws a conflict if a newer one exists. */
  async write(next: (spec: LeaseSpec | undefined) => LeaseSpec, limits: LeaseDurations): Promise<void> {
    const { client, namespace, name } = this.#lease;
    if (this.#observed === undefined) return;
    const body = { ...this.#observed, spec: next(this.#observed.spec) };
    this.#observed = await replace<LeaseObject>(
      client,
      { resource: LEASES, namespace, name },
      { ...limits, body },
    );
  }
}

/** The holder identity: one process. Unknown parts are empty. */
export interface Identity {
  /** Pod or host name. */
  readonly name: string;
  readonly pid: string;
  /** Start of the process in clock ticks since boot. */
  readonly start: string;
  readonly bootId: string;
  /** Inode of the PID namespace. */
  readonly pidNamespace: string;
}

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** This process. */
export function ownIdentity(pod?: string): Identity {
  return {
    name: pod || hostname(),
    pid: String(process.pid),
    start: startOf("self") ?? "",
    bootId: attempt(() => readFileSync(BOOT_ID, "utf8"))?.trim() ?? "",
    pidNamespace: /\d+/.exec(attempt(() => readlinkSync("/proc/self/ns/pid")) ?? "")?.[0] ?? "",
  };
}

/** `name/pid/start/bootId/pidNamespace`. */
export function formatIdentity(identity: Identity): string {
  const { name, pid, start, bootId, pidNamespace } = identity;
  return [name, pid, start, bootId, pidNamespace].join("/");
}

/** Reads what `formatIdentity` wrote; undefined for holders of another form. */
export function parseIdentity(text: string): Identity | undefined {
  const [name, pid, start, bootId, pidNamespace, ...more] = text.split("/");
  if (name === undefined || pid === undefined || start === undefined) return undefined;
  if (bootId === undefined || pidNamespace === undefined || more.length > 0) return undefined;
  return { name, pid, start, bootId, pidNamespace };
}

/**
 * True if `holder` has certainly ended: it was started in the same boot and PID namespace as `own`, and its pid is free,
 * a zombie, or reused. False if that is not certain.
 */
export function isExpired(holder: string, own: Identity): boolean {
  const other = parseIdentity(holder);
  if (other === undefined || other.start === "" || !/^[1-9]\d*$/.test(other.pid)) return false;
  if (own.bootId === "" || own.pidNamespace === "") return false;
  if (other.bootId !== own.bootId || other.pidNamespace !== own.pidNamespace) return false;
  if (isFree(Number(other.pid))) return true;
  const start = startOf(Number(other.pid));
  return start !== undefined && start !== other.start;
}

// /proc may hide processes of other users; signal 0 finds them.
function isFree(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** Start time of a process; "zombie" if it has ended and was not reaped; undefined if it cannot be read. */
function startOf(pid: number | "self"): string | undefined {
  const { state = "", startTime } = readStatSync(pid) ?? {};
  return state === "Z" || state === "X" ? "zombie" : startTime;
}
