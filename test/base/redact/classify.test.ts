import { describe, expect, it } from "vitest";

import { looksSecret, redactValues } from "../../../src/base/index.ts";
import type { Json } from "../../../src/base/model/index.ts";

describe("keys of secrets", () => {
  it.each(
    `JWTSeed api_key_12 token2 API_TOKEN_OLD dbConnString connectionStrings1 DOCKER_CONFIG_JSON dockerCfgJson
    rootpass secretId webhookUrl incoming_webhook_uri hooksUrls tlsSecretKey secretsKey authorization
    tls_secret basic_auth_password existsToken`.split(/\s+/),
  )("hides %s", (key) => expect(looksSecret(key)).toBe(true));

  it.each(
    `connection conn connectionStringent stringConnection dockerConfigJsonPath pass1Length tokenSha256
    existingSecretKey checksumToken useToken imagePullSecrets publicCert publicCerts webhookUrlPath
    urlWebhook topologyKey labelKeys bypass monkeys passable compass secretariat key12Name url id string`.split(
      /\s+/,
    ),
  )("shows %s", (key) => expect(looksSecret(key)).toBe(false));

  it.each<[Json, boolean]>([
    [{ topology: { key: "a1%b" } }, true],
    [{ labels: { KEY: "a1%b" }, api: { KEY: "a1%b" } }, false],
    [{ api: { KEY: "a1%b" } }, false],
    [{ webhook: { url: "x.y" } }, true],
    [{ secret: { id: "a1%b" } }, false],
    [{ pull: { secret: "a1%b" } }, true],
    [{ tls: { secret: "web-tls" } }, true],
    [{ tls: { secret: "a1%b" } }, false],
    [{ client: { secret: "web-tls" } }, false],
    [{ secret: "web-tls" }, true],
    [{ secret: "a1%b" }, false],
  ])("%j is shown: %s", (values, isVisible) => {
    const last = (value: unknown): unknown =>
      typeof value === "object" && value !== null ? last(Object.values(value).at(-1)) : value;
    expect(last(redactValues(values)) === last(values)).toBe(isVisible);
  });
});
