import { describe, expect, it } from "vitest";

import {
  redactText,
  displayDigest,
  placeholderOf,
  useRedactionKey,
  type LogFields,
  silentLogger,
} from "../../src/base/index.ts";
import { RedactionKey } from "../../src/kube/redaction-key.ts";
import { fake } from "./fixture.ts";
import { status } from "../support/fake-api.ts";

const PLACE = { namespace: "ops", secret: "addon-operator-x-redaction" };
const ALL = "/api/v1/namespaces/ops/secrets";
const ONE = `${ALL}/${PLACE.secret}`;
const stored = (byte: number) => ({
  json: { metadata: {}, data: { key: Buffer.alloc(32, byte).toString("base64") } },
});
/** What stands for a secret under a key that is known. */
function with32(byte: number): string {
  useRedactionKey(Buffer.alloc(32, byte));
  const displayed = placeholderOf("hunter2");
  useRedactionKey(Buffer.alloc(32, 99));
  return displayed;
}

async function lab() {
  const { api, client } = await fake();
  const warnings: LogFields[] = [];
  const logger = { ...silentLogger, warn: (_: string, fields: LogFields = {}) => void warnings.push(fields) };
  return { api, warnings, key: new RedactionKey({ ...PLACE, client, logger }) };
}

describe("stand-ins", () => {
  it("have 128 bits and are others with another key, as are shown digests", () => {
    expect(with32(1)).toMatch(/^<redacted:[0-9a-f]{32}>$/);
    expect(with32(1)).toBe(with32(1));
    expect(with32(1)).not.toBe(with32(2));
    useRedactionKey(Buffer.alloc(32, 1));
    const digest = displayDigest("v1-abc");
    useRedactionKey(Buffer.alloc(32, 2));
    expect(displayDigest("v1-abc")).not.toBe(digest);
  });

  it("are left as they are when a text is redacted again", () => {
    const displayed = redactText("password=hunter2 https://me:pw@h/");
    expect(redactText(displayed)).toBe(displayed);
  });
});

describe("the key of an installation", () => {
  it("is taken from its Secret", async () => {
    const wanted = with32(7);
    const { api, key, warnings } = await lab();
    api.on(`GET ${ONE}`, stored(7));
    await key.ensure();
    expect([placeholderOf("hunter2"), api.count(`POST ${ALL}`), warnings]).toEqual([wanted, 0, []]);
  });

  it("is stored again when somebody deletes its Secret", async () => {
    const { api, key } = await lab();
    api.on(`GET ${ONE}`, stored(7), stored(7), status(404, "NotFound"));
    api.on(`POST ${ALL}`, { status: 201, json: {} });
    await key.ensure();
    expect([await key.restore(), api.count(`POST ${ALL}`)]).toEqual([false, 0]);
    expect(await key.restore()).toBe(true);
    const { body = "{}" } = api.requests.at(-1) ?? {};
    expect(JSON.parse(body)).toMatchObject({ immutable: true, data: stored(7).json.data });
    expect(placeholderOf("hunter2")).toBe(with32(7));
  });

  it("is stored later if that failed at the start, without other placeholders", async () => {
    const { api, key, warnings } = await lab();
    api.on(`GET ${ONE}`, status(404, "NotFound"));
    api.on(`POST ${ALL}`, status(500, "InternalError"), status(500, "InternalError"), {
      status: 201,
      json: {},
    });
    const before = placeholderOf("hunter2");
    await key.ensure();
    await expect(key.restore()).rejects.toThrow("InternalError");
    expect(await key.restore()).toBe(false);
    expect([placeholderOf("hunter2"), warnings.length]).toEqual([before, 1]);
    const { body = "{}" } = api.requests.at(-1) ?? {};
    useRedactionKey(Buffer.from((JSON.parse(body) as { data: { key: string } }).data.key, "base64"));
    expect(placeholderOf("hunter2")).toBe(before);
    // From then on, a missing Secret is one that somebody has deleted.
    expect(await key.restore()).toBe(true);
  });

  it("is read later if that failed at the start", async () => {
    const wanted = with32(7);
    const { api, key } = await lab();
    api.on(`GET ${ONE}`, status(403, "Forbidden"), stored(7));
    await key.ensure();
    expect([await key.restore(), placeholderOf("hunter2")]).toEqual([false, wanted]);
  });

  it("is made where there is none, once, in a Secret that nobody changes", async () => {
    const { api, key, warnings } = await lab();
    api.on(`GET ${ONE}`, status(404, "NotFound")).on(`POST ${ALL}`, { status: 201, json: {} });
    await key.ensure();
    await key.ensure();
    const [body = "{}"] = api.requests.filter(({ method }) => method === "POST").map((each) => each.body);
    const made = JSON.parse(body) as { immutable: boolean; metadata: object; data: { key: string } };
    expect(made).toMatchObject({
      kind: "Secret",
      immutable: true,
      metadata: { name: PLACE.secret, namespace: "ops" },
    });
    const bytes = Buffer.from(made.data.key, "base64");
    expect([bytes.length, api.count(`POST ${ALL}`), warnings]).toEqual([32, 1, []]);
    const displayed = placeholderOf("hunter2");
    useRedactionKey(bytes);
    expect(placeholderOf("hunter2")).toBe(displayed);
  });

  it("is the other's when two make it at once", async () => {
    const wanted = with32(8);
    const { api, key } = await lab();
    api.on(`GET ${ONE}`, status(404, "NotFound"), stored(8)).on(`POST ${ALL}`, status(409, "AlreadyExists"));
    await key.ensure();
    expect(placeholderOf("hunter2")).toBe(wanted);
  });

  it("is only read by a follower", async () => {
    const { api, key, warnings } = await lab();
    api.on(`GET ${ONE}`, status(404, "NotFound"));
    await key.read();
    expect([api.requests.length, warnings]).toEqual([2, []]);
  });

  it.each([
    ["the right is missing", status(403, "Forbidden")],
    ["its Secret has no key", { json: { data: { other: "eA==" } } }],
  ])("stays the one of the process when %s, which is reported once", async (_, answer) => {
    const before = with32(99);
    const { api, key, warnings } = await lab();
    api.on(`GET ${ONE}`, answer);
    await key.ensure();
    expect(placeholderOf("hunter2")).toBe(before);
    expect(warnings).toEqual([{ secret: PLACE.secret, error: expect.stringMatching(/./) }]);
  });
});
