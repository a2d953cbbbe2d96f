/** A follower answers reviews by passing them to the leader, which has the state. */

import { request } from "node:https";

import { parseJson, readAtMost } from "../lib/index.ts";
import { isJsonObject, objectOf, type JsonObject } from "../model/index.ts";
import type { Certificate } from "./certificate/certificate.ts";

/** Where the leader answers. */
export interface LeaderPlace {
  readonly ip: string;
  readonly port: number;
}

/** Header of reviews that a follower passes on: the receiver does not pass them on again. */
export const FOLLOWER_HEADER = "x-addon-operator-follower";

const LARGEST = 64 * 1024 * 1024;

/** The leader's response to a review. Throws if it does not answer with one. `host` is the name in its certificate. */
export async function askLeader(
  { ip, port }: LeaderPlace,
  call: { readonly path: string; readonly request: JsonObject; readonly signal: AbortSignal },
  { certificate, host }: { readonly certificate: Certificate; readonly host: string },
): Promise<JsonObject> {
  const { cert, key, ca } = certificate;
  const headers = { "content-type": "application/json", [FOLLOWER_HEADER]: "true" };
  const { promise, resolve, reject } = Promise.withResolvers<JsonObject>();
  const sent = request({
    host: ip,
    port,
    path: call.path,
    method: "POST",
    headers,
    agent: false,
    signal: call.signal,
    servername: host,
    ca,
    cert,
    key,
  });
  sent.on("error", reject).on("response", (answer) => {
    readAtMost(answer as AsyncIterable<Buffer>, LARGEST)
      .then((body) => {
        if (answer.statusCode !== 200 || body === undefined)
          throw new Error(`the leader answered ${answer.statusCode}`);
        const response = objectOf(parseJson(body.toString()))["response"];
        if (!isJsonObject(response)) throw new Error("the leader answered no review");
        resolve(response);
      })
      .catch(reject);
  });
  sent.end(JSON.stringify({ apiVersion: "v1", kind: "Review", request: call.request }));
  return promise;
}
