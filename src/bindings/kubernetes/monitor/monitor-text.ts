/** Keeps objects as JSON text, one copy for all bindings. */

import type { WatchedObject } from "../../../kube/index.ts";
import type { Json, JsonObject, SnapshotItem } from "../../../model/index.ts";

/** The JSON text of one version of one object, shared by all bindings that keep it. */
export interface SharedText {
  readonly key: string;
  readonly bytes: Uint8Array;
  holders: number;
}

/**
 * Texts of full objects, one copy for each version. Bytes outside the JavaScript heap are the smallest form that
 * can be written into a context as it is (a parsed object takes two to four times as much).
 */
export class TextPool {
  readonly #texts = new Map<string, SharedText>();

  /** Number of texts held. */
  get size(): number {
    return this.#texts.size;
  }

  /** The text of `object`; return it with `release`. `flavour` distinguishes other forms of the same object. */
  hold(object: WatchedObject, flavour: string): SharedText {
    const { uid = "", resourceVersion = "" } = object.metadata;
    const key = `${uid}/${resourceVersion}/${object.apiVersion}${flavour}`;
    const known = this.#texts.get(key);
    if (known !== undefined) {
      known.holders += 1;
      return known;
    }
    const text: SharedText = { key, bytes: bytesOf(object), holders: 1 };
    if (uid !== "") this.#texts.set(key, text);
    return text;
  }

  release(text: SharedText | undefined): void {
    if (text === undefined) return;
    text.holders -= 1;
    if (text.holders === 0) this.#texts.delete(text.key);
  }
}

// A copy of exactly this size: a slice of Node's shared pool would keep the whole pool alive.
function bytesOf(object: JsonObject): Uint8Array {
  const text = JSON.stringify(object);
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** An item whose object is kept as text and parsed when somebody asks for it. */
class TextItem implements SnapshotItem {
  declare readonly filterResult?: Json;
  readonly objectText: Uint8Array;

  constructor(bytes: Uint8Array, result: { readonly value: Json } | undefined) {
    this.objectText = bytes;
    if (result !== undefined) this.filterResult = result.value;
  }

  get object(): JsonObject {
    return JSON.parse(Buffer.from(this.objectText).toString("utf8")) as JsonObject;
  }

  toJSON(): JsonObject {
    const { object, filterResult } = this;
    return filterResult === undefined ? { object } : { object, filterResult };
  }
}

/** What a binding shows of an object: its text if it is kept, its filter result if there is a filter. */
export function snapshotItem(
  bytes: Uint8Array | undefined,
  result: { readonly value: Json } | undefined,
): SnapshotItem {
  if (bytes !== undefined) return new TextItem(bytes, result);
  return result === undefined ? {} : { filterResult: result.value };
}
