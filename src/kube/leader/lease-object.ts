/** The Lease as an object of the API, and the process that it names as its holder. */

import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

import { isNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { create, get, replace } from "../client/request.ts";
import { LEASES, type LeaseObject as Live, type LeaseSpec } from "../resources.ts";

/** How long a request may take, and what ends it. */
export interface Limits {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

interface Place {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
}

/** One Lease; of two who write to the same version of it, one gets a conflict. */
export class LeaseObject {
  readonly #place: Place;
  #seen: Live | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  /** What it says; undefined = there is none. */
  async read(limits: Limits): Promise<LeaseSpec | undefined> {
    const { client, ...target } = this.#place;
    try {
      this.#seen = await get<Live>(client, { resource: LEASES, ...target }, limits);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#seen = undefined;
    }
    return this.#seen && (this.#seen.spec ?? {});
  }

  async create(spec: LeaseSpec, limits: Limits): Promise<void> {
    const { client, namespace, name } = this.#place;
    const metadata = { name, namespace };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    this.#seen = await create<Live>(client, { resource: LEASES, namespace }, { ...limits, body });
  }

  /** Replaces what was seen last; a conflict means that there is a newer one. */
  async write(next: (spec: LeaseSpec | undefined) => LeaseSpec, limits: Limits): Promise<void> {
    const { client, namespace, name } = this.#place;
    if (this.#seen === undefined) return;
    const body = { ...this.#seen, spec: next(this.#seen.spec) };
    this.#seen = await replace<Live>(client, { resource: LEASES, namespace, name }, { ...limits, body });
  }
}

/** A process as a Lease names its holder. Unknown parts are empty. */
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
    bootId: orNothing(() => readFileSync(BOOT_ID, "utf8"))?.trim() ?? "",
    pidNamespace: /\d+/.exec(orNothing(() => readlinkSync("/proc/self/ns/pid")) ?? "")?.[0] ?? "",
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
 * True when `holder` certainly runs no more: it was started under the same boot of the same kernel in the same PID
 * namespace as `own`, and its pid is free, a zombie's or another process's. False whenever that is not certain.
 */
export function isGone(holder: string, own: Identity): boolean {
  const other = parseIdentity(holder);
  if (other === undefined || other.start === "" || !/^[1-9]\d*$/.test(other.pid)) return false;
  if (own.bootId === "" || own.pidNamespace === "") return false;
  if (other.bootId !== own.bootId || other.pidNamespace !== own.pidNamespace) return false;
  if (isFree(Number(other.pid))) return true;
  const start = startOf(other.pid);
  return start !== undefined && start !== other.start;
}

// /proc may hide the processes of others; a signal shows whether they exist.
function isFree(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** Start time of a process; "zombie" when it has ended and was not reaped; undefined when it cannot be read. */
function startOf(pid: string): string | undefined {
  const stat = orNothing(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  if (stat === undefined) return undefined;
  // The second field, the name, may hold spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? "zombie" : fields[19];
}

function orNothing(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
