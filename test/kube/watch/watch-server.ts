import type { ApiRequest, KubeClient } from "../../../src/kube/index.ts";

/** One request the code under test has made, answered by hand. */
export interface Call {
  readonly request: ApiRequest;
  readonly watch: boolean;
  /** Opens the body. */
  open(): Call;
  send(...parts: (string | object)[]): Call;
  end(): void;
  fail(error: unknown): void;
}

/** The wire of a test: every `stream` call waits in `next()` to be answered. */
export class WatchServer implements Pick<KubeClient, "stream"> {
  readonly #calls: Call[] = [];
  readonly #waiting: ((call: Call) => void)[] = [];

  /** Requests that nobody has taken with `next`. */
  get pending(): number {
    return this.#calls.length;
  }

  next(): Promise<Call> {
    const call = this.#calls.shift();
    return call === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(call);
  }

  stream(request: ApiRequest): Promise<AsyncIterable<Uint8Array>> {
    const opened = Promise.withResolvers<AsyncIterable<Uint8Array>>();
    const queue: (Uint8Array | { error: unknown } | undefined)[] = [];
    let wake = (): void => {};
    const put = (part: (typeof queue)[number]): void => {
      queue.push(part);
      wake();
    };
    async function* body(): AsyncGenerator<Uint8Array> {
      for (;;) {
        while (queue.length === 0) await new Promise<void>((resolve) => (wake = resolve));
        const part = queue.shift();
        if (part === undefined) return;
        if ("error" in part) throw part.error;
        yield part;
      }
    }
    const call: Call = {
      request,
      watch: request.query?.["watch"] === true,
      open: () => {
        opened.resolve(body());
        return call;
      },
      send: (...parts) => {
        for (const part of parts)
          put(Buffer.from(typeof part === "string" ? part : `${JSON.stringify(part)}\n`));
        return call.open();
      },
      end: () => {
        call.open();
        put(undefined);
      },
      fail: (error) => {
        opened.reject(error);
        put({ error });
      },
    };
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#calls.push(call);
    else waiting(call);
    return opened.promise;
  }
}

/** A ConfigMap as the server sends it. */
export function configMap(
  name: string,
  version: number | string,
  more: object = {},
): Record<string, unknown> {
  const metadata = { name, namespace: "ns", uid: `uid-${name}`, resourceVersion: String(version) };
  return { metadata, ...more };
}

/** A list answer. */
export function list(version: number | string, items: object[], next?: string): string {
  const metadata = { resourceVersion: String(version), ...(next === undefined ? {} : { continue: next }) };
  return JSON.stringify({ kind: "ConfigMapList", apiVersion: "v1", metadata, items });
}

export const added = (object: object): object => ({ type: "ADDED", object });
export const modified = (object: object): object => ({ type: "MODIFIED", object });
export const removed = (object: object): object => ({ type: "DELETED", object });
export const bookmark = (version: number): object => ({
  type: "BOOKMARK",
  object: { kind: "ConfigMap", metadata: { resourceVersion: String(version) } },
});
export const failure = (code: number, reason: string): object => ({
  type: "ERROR",
  object: { kind: "Status", code, reason, message: `${reason} it is` },
});
