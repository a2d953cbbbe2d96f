/**
 * Forwards reviews, the requests of the API server to webhooks, from a standby replica to the leader, because only the leader
 * has the state that answers need.
 */

import { Agent, request } from "node:https";
import { isIP } from "node:net";
import { checkServerIdentity } from "node:tls";

import { FOLLOWER_HEADER, type Address } from "../kube/index.ts";
import { oneLine, parseExactJson, readAtMost, shareCalls, type Clock } from "../base/index.ts";
import { isJsonObject, objectOf, type JsonObject } from "../base/model/index.ts";
import type { Certificate } from "./certificate/certificate.ts";
import { ReviewError } from "./review.ts";

/** A review that this replica forwards. `signal` is aborted when the API server waits no longer. */
interface ForwardedReview {
  readonly path: string;
  readonly request: JsonObject;
  readonly signal: AbortSignal;
}

interface LeaderOptions {
  readonly clock: Clock;
  /** Reads the address of the leader's webhook server from the API server. */
  readonly findLeader: () => Promise<Address | undefined>;
  /** The name in the leader's certificate. */
  readonly host: string;
}

const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/** How long a known leader address is used before the API server is queried again, unless the leader does not answer. */
const LEADER_CACHE_MS = 5000;
/** Less than the limit that the leader's server has for one address. */
const MAX_CONNECTIONS = 16;
/** The status with which a replica answers if it is not the leader and cannot reach it. */
const UNAVAILABLE = 503;

/** Sends reviews to the leader over connections that stay open. */
export class LeaderClient {
  readonly #options: LeaderOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS });
  /** Reads the leader's address from the API server at most once per LEADER_CACHE_MS. */
  #readLeader!: () => Promise<Address | undefined>;

  constructor(options: LeaderOptions) {
    this.#options = options;
    this.#forgetLeader();
  }

  /** Returns the leader's response to a review. Throws ReviewError with status 503 if no leader is elected or the leader does not answer. */
  async forwardReview(call: ForwardedReview, certificate: Certificate | undefined): Promise<JsonObject> {
    try {
      if (certificate === undefined) throw new Error("there is no certificate yet");
      const address = await this.#readLeader();
      if (address !== undefined) return await this.#sendReview(address, call, certificate);
      // A leader may be elected soon.
      this.#forgetLeader();
      throw new Error("no leader is elected");
    } catch (error) {
      const message = `this operator is a follower, and its leader does not answer: ${oneLine(error)}`;
      throw new ReviewError(message, UNAVAILABLE);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  /** Drops the remembered address of the leader, so that the next review reads it from the API server. */
  #forgetLeader(): void {
    const { clock, findLeader } = this.#options;
    this.#readLeader = shareCalls(clock, LEADER_CACHE_MS, findLeader);
  }

  /** Sends one review. Tries again if a reused connection is reset, because the leader closes idle connections. */
  async #sendReview(
    { ip, port }: Address,
    call: ForwardedReview,
    certificate: Certificate,
  ): Promise<JsonObject> {
    const { cert, key, ca } = certificate;
    const { host } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject | undefined>();
    // Resolves with undefined if the request must be sent again.
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
      this.#forgetLeader();
      reject(error);
    });
    sent.on("response", (answer) => {
      readAtMost(answer as AsyncIterable<Buffer>, MAX_RESPONSE_BYTES)
        .then((body) => {
          if (answer.statusCode === UNAVAILABLE) this.#forgetLeader();
          if (answer.statusCode !== 200 || body === undefined)
            throw new Error(`the leader answered ${answer.statusCode}`);
          const response = objectOf(parseExactJson(body.toString()))["response"];
          if (!isJsonObject(response)) throw new Error("the leader answered no review");
          resolve(response);
        })
        .catch(reject);
    });
    sent.end(JSON.stringify({ apiVersion: "v1", kind: "Review", request: call.request }));
    return (await promise) ?? this.#sendReview({ ip, port }, call, certificate);
  }
}
