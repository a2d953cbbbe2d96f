import { describe, expect, it } from "vitest";

import { buildChildEnvironment, collectOwnSecrets } from "../../../src/config/settings/index.ts";
import { KnownSecrets } from "../../../src/base/index.ts";
import { parseSettings } from "../../support/command-line.ts";

const ENV = {
  PATH: "/bin",
  OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20t0ken-of-0urs",
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x=y",
  ADDON_OPERATOR_OTEL_EXPORTER_OTLP_HEADERS: "x=y",
  OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector:4318",
  HTTPS_PROXY: "http://proxy:3128",
  http_proxy: "http://me:pa%24sw0rd-1@proxy:3128",
  ALL_PROXY: "me:pa55word@proxy:3128",
  NO_PROXY: "a.example,b.example",
};

const plain = { hookProxyCredentials: false };

describe("children get the environment", () => {
  it("without the operator's own credentials", () => {
    const { PATH, OTEL_EXPORTER_OTLP_ENDPOINT, HTTPS_PROXY, NO_PROXY } = ENV;
    const passed = { PATH, OTEL_EXPORTER_OTLP_ENDPOINT, HTTPS_PROXY, NO_PROXY };
    expect(buildChildEnvironment(ENV, plain)).toEqual(passed);
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "https://me:secret@collector" };
    expect(buildChildEnvironment(endpoint, plain)).toEqual({});
  });

  it("with the credentials of proxies where they are wanted", () => {
    const { http_proxy, ALL_PROXY } = ENV;
    expect(buildChildEnvironment(ENV, { hookProxyCredentials: true })).toMatchObject({
      http_proxy,
      ALL_PROXY,
    });
    const withheld = (args: string[]): string[] =>
      parseSettings(args, ENV).warnings.filter((each) => each.includes("is not passed to hooks"));
    expect(withheld([])).toEqual([
      expect.stringMatching(/^http_proxy /),
      expect.stringMatching(/^ALL_PROXY /),
    ]);
    expect(withheld(["--hook-proxy-credentials"])).toEqual([]);
  });

  it("with the operator's kubeconfig in place of all others, and no other way to a cluster", () => {
    const ways = {
      KUBE_CONFIG: "/mine",
      HELM_KUBETOKEN: "t",
      HELM_KUBECONTEXT: "prod",
      KUBERNETES_PORT: "1",
    };
    expect(buildChildEnvironment(ways, plain, "/private")).toEqual({
      KUBE_CONFIG: "/private",
      KUBECONFIG: "/private",
      KUBERNETES_PORT: "1",
    });
  });
});

it("what the operator has for itself is in no text that it shows, however it is written", () => {
  const secrets = new KnownSecrets();
  const { settings } = parseSettings(["--otlp-headers=x-key=of%20the-flag-1"], ENV);
  secrets.register({ own: collectOwnSecrets(settings, ENV) }, new Set(["/own"]));
  const text =
    "t0ken-of-0urs; authorization=Bearer%20t0ken-of-0urs; of the-flag-1; pa$sw0rd-1; pa%24sw0rd-1; pa55word; proxy:3128";
  const displayed = secrets.redact(text);
  expect(displayed).not.toMatch(/0urs|the-flag|sw0rd|pa55/);
  expect(displayed).toContain("proxy:3128");
});

describe("a collector over plain http", () => {
  const HTTP = "--otlp-endpoint=http://collector:4318";
  const HEADERS = "--otlp-headers=authorization=Bearer%20token";

  it("gets no headers unless they are allowed to go there", () => {
    expect(() => parseSettings([HTTP, HEADERS], {})).toThrow(/^--otlp-endpoint: headers .* --otlp-insecure$/);
    expect(() => parseSettings([HTTP], { OTEL_EXPORTER_OTLP_HEADERS: "a=b" })).toThrow("--otlp-insecure");
    for (const args of [
      [HTTP],
      [HTTP, HEADERS, "--otlp-insecure"],
      [HTTP.replace("http:", "https:"), HEADERS],
    ])
      expect(parseSettings(args, {}).settings.otlpEndpoint).toContain("collector");
  });

  it("is not quoted where its URL holds a password", () => {
    const error = "--otlp-endpoint: contains a user name or password; give them as --otlp-headers";
    expect(() => parseSettings(["--otlp-endpoint=https://me:secret@collector"], {})).toThrow(error);
  });
});
