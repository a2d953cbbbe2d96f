/** A follower answers reviews by passing them to the leader, which has the state. */

import { Agent, request } from "node:https";
import { isIP } from "node:net";
import { checkServerIdentity } from "node:tls";

import { parseJson, readAtMost, type Clock } from "../lib/index.ts";
import { isJsonObject, objectOf, type JsonObject } from "../model/index.ts";
import type { Certificate } from "./certificate/certificate.ts";

/** Where the leader answers. */
export interface LeaderAddress {
  readonly ip: string;
  readonly port: number;
}

/** A review to pass on. */
interface Call {
  readonly path: string;
  readonly request: JsonObject;
  readonly signal: AbortSignal;
}

interface LeaderOptions {
  readonly clock: Clock;
  /** Reads the leader from the API server. */
  readonly find: () => Promise<LeaderAddress | undefined>;
  /** The name in the leader's certificate. */
  readonly host: string;
}

/** Header of reviews that a follower passes on: the receiver does not pass them on again. */
export const FOLLOWER_HEADER = "x-addon-operator-follower";

const LARGEST = 64 * 1024 * 1024;
/** A leader is taken to lead for this long, unless it does not answer: the API server is not queried for each review. */
const KNOWN_MS = 5000;
/** Fewer than the leader accepts of one address. */
const MOST_CONNECTIONS = 16;
const UNAVAILABLE = 503;

/** Calls the leader over connections that stay open. */
export class LeaderCalls {
  readonly #options: LeaderOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: MOST_CONNECTIONS });
  #found: { readonly address: Promise<LeaderAddress | undefined>; readonly at: number } | undefined;

  constructor(options: LeaderOptions) {
    this.#options = options;
  }

  /** The leader's response to a review. Throws if it does not answer with one. */
  async ask(call: Call, certificate: Certificate): Promise<JsonObject> {
    const address = await this.#leaderAddress();
    if (address === undefined) throw new Error("no leader is elected");
    return this.#send(address, call, certificate);
  }

  close(): void {
    this.#agent.destroy();
  }

  async #leaderAddress(): Promise<LeaderAddress | undefined> {
    const { clock, find } = this.#options;
    const now = clock.monotonic();
    if (this.#found === undefined || now - this.#found.at > KNOWN_MS)
      this.#found = { address: find(), at: now };
    const address = await this.#found.address.catch((error: unknown) => {
      this.#found = undefined;
      throw error;
    });
    if (address === undefined) this.#found = undefined;
    return address;
  }

  /** Tries again if a connection that was open is reset: the leader closes idle ones. */
  async #send({ ip, port }: LeaderAddress, call: Call, certificate: Certificate): Promise<JsonObject> {
    const { cert, key, ca } = certificate;
    const { host } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject | undefined>();
    const sent = request({
      host: ip,
      port,
      path: call.path,
      method: "POST",
      headers: { "content-type": "application/json", [FOLLOWER_HEADER]: "true" },
      agent: this.#agent,
      signal: call.signal,
      // An address must not be a server name (RFC 6066).
      servername: isIP(host) === 0 ? host : "",
      checkServerIdentity: (_, certificate) => checkServerIdentity(host, certificate),
      ca,
      cert,
      key,
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      if (sent.reusedSocket && error.code === "ECONNRESET") return resolve(undefined);
      this.#found = undefined;
      reject(error);
    });
    sent.on("response", (answer) => {
      readAtMost(answer as AsyncIterable<Buffer>, LARGEST)
        .then((body) => {
          // It is no longer the leader.
          if (answer.statusCode === UNAVAILABLE) this.#found = undefined;
          if (answer.statusCode !== 200 || body === undefined)
            throw new Error(`the leader answered ${answer.statusCode}`);
          const response = objectOf(parseJson(body.toString()))["response"];
          if (!isJsonObject(response)) throw new Error("the leader answered no review");
          resolve(response);
        })
        .catch(reject);
    });
    sent.end(JSON.stringify({ apiVersion: "v1", kind: "Review", request: call.request }));
    return (await promise) ?? this.#send({ ip, port }, call, certificate);
  }
}
