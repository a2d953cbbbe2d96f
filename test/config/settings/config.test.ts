import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { UsageError, parseConfigOverlay } from "../../../src/config/settings/config.ts";
import { FOREIGN_FLAGS, IGNORED_ENV, UNSUPPORTED } from "../../../src/config/settings/setting-names.ts";
import { lineOf, parseSettings } from "../../support/command-line.ts";

describe("settings", () => {
  it("takes flag over environment over default", () => {
    expect(parseSettings([], {}).settings.listenPort).toBe(9115);
    const env = { ADDON_OPERATOR_LISTEN_PORT: "9650" };
    expect(parseSettings([], env).settings.listenPort).toBe(9650);
    expect(parseSettings(["--listen-port=1"], env).settings.listenPort).toBe(1);
    expect(parseSettings(["--prometheus-listen-port", "2"], env).settings.listenPort).toBe(2);
    expect(parseSettings(["--kubeconfig", "/k"], env).settings.kubeConfig).toBe("/k");
  });

  it("takes relative paths from where it is started, since children run elsewhere", () => {
    const { settings } = parseSettings(
      ["--modules-dir=m:/n", "--global-hooks-dir=./g", "--helm-bin=bin/helm"],
      {
        ADDON_OPERATOR_TMP_DIR: "tmp",
        JQ_PATH: "jq",
      },
    );
    const here = process.cwd();
    expect(settings).toMatchObject({
      modulesDir: `${here}/m:/n`,
      globalHooksDir: `${here}/g`,
      helmBin: `${here}/bin/helm`,
      tmpDir: `${here}/tmp`,
      jqBin: "jq",
    });
  });

  it("knows the old and the prefixed names", () => {
    expect(parseSettings([], { MODULES_DIR: "/a" }).settings.modulesDir).toBe("/a");
    expect(parseSettings([], { ADDON_OPERATOR_MODULES_DIR: "/b" }).settings.modulesDir).toBe("/b");
    expect(parseSettings([], { RLOG_LOG_LEVEL: "DEBUG" }).settings.logLevel).toBe("debug");
    const everything = { logLevel: "debug", debugKubernetesApi: true };
    expect(parseSettings(["--debug=yes"], {}).settings).toMatchObject(everything);
    expect(parseSettings(["--log-level=debug"], {}).settings.debugKubernetesApi).toBe(false);
    expect(parseSettings([], { NAMESPACE: "not-ours" }).settings.namespace).toBeUndefined();
  });

  it("takes the first variable that is set; an empty one counts as not set", () => {
    const dir = (env: Record<string, string>) => parseSettings([], env).settings.modulesDir;
    expect(dir({ MODULES_DIR: "/a", ADDON_OPERATOR_MODULES_DIR: "/b" })).toBe("/a");
    expect(dir({ MODULES_DIR: "", ADDON_OPERATOR_MODULES_DIR: "/b" })).toBe("/b");
    expect(parseSettings([], { ADDON_OPERATOR_LISTEN_PORT: "" }).settings.listenPort).toBe(9115);
  });

  it("warns of a variable that another name of the same setting overrides", () => {
    const warnings = (env: Record<string, string>) => parseSettings([], env).warnings;
    expect(warnings({ MODULES_DIR: "/a", ADDON_OPERATOR_MODULES_DIR: "/b" })).toEqual([
      "ADDON_OPERATOR_MODULES_DIR is ignored: MODULES_DIR is set, too, to another value. Unset one of them",
    ]);
    expect(warnings({ MODULES_DIR: "/a", ADDON_OPERATOR_MODULES_DIR: "/a" })).toEqual([]);
    expect(warnings({ MODULES_DIR: "", ADDON_OPERATOR_MODULES_DIR: "/b" })).toEqual([]);
  });

  it("reads durations, numbers, booleans", () => {
    const { settings } = parseSettings(["--helm-timeout", "1m30s", "--ha", "--kube-client-qps=2.5"], {});
    expect(settings).toMatchObject({ helmTimeoutMs: 90_000, ha: true, kubeClientQps: 2.5 });
  });

  it("names setting, value and what is accepted, for every problem at once", () => {
    const wrong = (): unknown =>
      parseSettings(["--listen-port=x", "--purge=all!", "--nope"], { HOOK_TIMEOUT: "5" });
    expect(wrong).toThrow(UsageError);
    expect(wrong).toThrow(/--nope: unknown flag/);
    expect(wrong).toThrow(/--listen-port: "x" is not accepted; use a whole number/);
    expect(wrong).toThrow(/--purge: "all!" is not accepted; use owned, all, off/);
    expect(wrong).toThrow(/HOOK_TIMEOUT: "5" is not accepted; use a duration/);
  });

  it("takes a collector by its URL, and a share of traces from 0 to 1", () => {
    const read = (args: readonly string[]): unknown => parseSettings(args, {}).settings;
    const endpoint = "https://otel:4318/x";
    const right = read([`--otlp-endpoint=${endpoint}`, "--otlp-sampling-ratio=0.25"]);
    expect(right).toMatchObject({ otlpEndpoint: endpoint, otlpSamplingRatio: 0.25 });
    expect(read([])).toMatchObject({ otlpEndpoint: undefined, otlpSamplingRatio: 1 });
    for (const wrong of ["otel:4318", "file:///tmp/x", "http://"])
      expect(() => read([`--otlp-endpoint=${wrong}`])).toThrow(
        /is not accepted; use an http:\/\/ or https:\/\/ URL/,
      );
    for (const wrong of ["1.5", "-1", "10%", "."])
      expect(() => read([`--otlp-sampling-ratio=${wrong}`])).toThrow(/use a number from 0 to 1/);
  });

  it("accepts settings of the Go operator that mean nothing here, with a warning", () => {
    const args = ["--helm-monitor-kube-client-qps=5", "--helm-monitor-kube-client-burst", "9"];
    const parsed = parseSettings([...args, "--debug-http-addr"], { USE_NELM: "true" });
    expect(parsed.warnings).toEqual([
      "--helm-monitor-kube-client-qps has no meaning here and is ignored",
      "--helm-monitor-kube-client-burst has no meaning here and is ignored",
      "--debug-http-addr has no meaning here and is ignored",
      "USE_NELM has no meaning here and is ignored",
    ]);
    expect(parsed.refusals).toEqual([]);
    expect(lineOf(["lint", "--debug-http-addr", "x", "modules"]).args).toEqual(["modules"]);
  });

  it("refuses to start with settings of the Go operator whose effect it cannot give", () => {
    const refusals = (args: readonly string[], env = {}) => parseSettings(args, env).refusals;
    expect(refusals(["--kube-server", "https://x", "--shell-chroot-dir=/x"])).toEqual([
      expect.stringMatching(/^--shell-chroot-dir is not supported: hooks cannot run in a chroot/),
      expect.stringMatching(/^--kube-server is not supported: name the server in a kubeconfig/),
    ]);
    const env = { KUBE_SERVER: "https://x", ADDON_OPERATOR_SHELL_CHROOT_DIR: "/x" };
    expect(refusals([], env)).toEqual([
      expect.stringMatching(/^ADDON_OPERATOR_SHELL_CHROOT_DIR is not supported/),
      expect.stringMatching(/^KUBE_SERVER is not supported/),
    ]);
    expect(refusals(["--shell-chroot-dir="], { KUBE_SERVER: "" })).toEqual([]);
  });

  it("names in the guide for migrations each setting of the Go operator that it ignores or refuses", () => {
    const guide = readFileSync(new URL("../../../docs/guides/migrating.md", import.meta.url), "utf8");
    const variables = [...IGNORED_ENV, ...Object.values(UNSUPPORTED).map(({ variable }) => variable)];
    const names = [...FOREIGN_FLAGS.map((flag) => `--${flag}`), ...variables];
    expect(names.filter((name) => !guide.includes(`\`${name}\``))).toEqual([]);
  });

  it("reads the variables of shell-operator last, as the Go operator does", () => {
    const env = {
      SHELL_OPERATOR_NAMESPACE: "shell",
      SHELL_OPERATOR_LISTEN_PORT: "1",
      SHELL_OPERATOR_LISTEN_ADDRESS: "127.0.0.1",
      SHELL_OPERATOR_TMP_DIR: "/t",
      SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX: "p_",
    };
    expect(parseSettings([], env).settings).toMatchObject({
      namespace: "shell",
      listenPort: 1,
      listenAddress: "127.0.0.1",
      tmpDir: "/t",
      metricsPrefix: "p_",
    });
    const both = { ...env, ADDON_OPERATOR_NAMESPACE: "own" };
    expect(parseSettings([], both).settings.namespace).toBe("own");
  });

  it("reads the extenders of the Go operator in their order, the script last", () => {
    const extenders = (text: string) =>
      parseSettings([], { ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS: text }).settings.appliedExtenders;
    const all = ["Static", "DynamicallyEnabled", "KubeConfig"];
    expect(extenders("")).toEqual({ flags: all, isScriptApplied: true });
    expect(extenders("KubeConfig, Static")).toEqual({
      flags: ["KubeConfig", "Static"],
      isScriptApplied: false,
    });
    for (const wrong of ["Static,Static", "static", "ScriptEnabled,Static", "Static,", "Other"])
      expect(() => extenders(wrong)).toThrow(
        /is not accepted; use Static, DynamicallyEnabled, KubeConfig and/,
      );
  });

  it("reads labels of CRDs, and refuses what is no label", () => {
    const labels = (...args: string[]) => parseSettings(args, {}).settings.crdExtraLabels;
    expect(labels("--crd-extra-labels=heritage=addon-operator, example.com/team=")).toEqual({
      heritage: "addon-operator",
      "example.com/team": "",
    });
    expect(labels()).toBeUndefined();
    for (const wrong of ["a", "=b", "a=b c", "a=b,", "-a=b"])
      expect(() => labels(`--crd-extra-labels=${wrong}`)).toThrow(
        /is not accepted; use labels such as team=core,tier=base/,
      );
  });

  it("reads places of unsigned charts, and refuses what is none", () => {
    const places = (...args: string[]) => parseSettings(args, {}).settings.unsignedCharts;
    const right = ["https://charts.example.org/a/", "oci://registry.example.com:5000"];
    expect(places(`--unsigned-charts=${right.join(", ")}`)).toEqual(right);
    expect(places()).toBeUndefined();
    for (const wrong of ["charts.example.org", "*", "https://u:p@a/b", "https://a/b?c", "oci://", "oci://a,"])
      expect(() => places(`--unsigned-charts=${wrong}`)).toThrow(/is not accepted; use oci:\/\//);
  });

  it("reads the template of namespaces, and refuses what makes none", () => {
    const template = (text: string) =>
      parseSettings([`--module-namespace-template=${text}`], {}).settings.moduleNamespaceTemplate;
    for (const right of ["addon-{name}", "{name}", "{name}-x", "addons"]) expect(template(right)).toBe(right);
    for (const wrong of ["Addon-{name}", "addon-{name", "{namespace}", "-{name}", "a.{name}", "a_b"])
      expect(() => template(wrong)).toThrow(
        /use the name of a namespace, with \{name\} for that of the module/,
      );
  });

  it("knows which files below crds/ are no CRDs by the names of the Go operator", () => {
    const filters = (env: Record<string, string>, ...args: string[]): string =>
      parseSettings(args, env).settings.crdFilters;
    expect(filters({})).toBe("doc-,_");
    expect(filters({ ADDON_OPERATOR_CRD_FILTER_PREFIXES: "x-" })).toBe("x-");
    expect(filters({ ADDON_OPERATOR_CRD_FILTER_PREFIXES: "x-" }, "--crd-filters=y-")).toBe("y-");
  });

  it("refuses lease times under which two could work at once", () => {
    const wrong = (...times: string[]): unknown =>
      parseSettings(
        ["duration", "renew-deadline", "retry-period"].map(
          (name, at) => `--lease-${name}=${times[at] ?? ""}`,
        ),
        {},
      );
    expect(wrong("35s", "32s", "10s")).toBeDefined();
    expect(() => wrong("20s", "30s", "10s")).toThrow(/^--lease-duration: must be at least 3 s more/);
    expect(() => wrong("35s", "33s", "10s")).toThrow(/^--lease-duration/);
    expect(() => wrong("35s", "10s", "10s")).toThrow(/^--lease-retry-period/);
    expect(() => wrong("35s", "10s", "0s")).toThrow(/^--lease-retry-period/);
  });

  it("reads where hooks write", () => {
    const overlay = (text: string) =>
      parseConfigOverlay(parseSettings([`--config-overlay=${text}`], {}).settings);
    expect(overlay("state")).toEqual({ kind: "ConfigMap", name: "state" });
    expect(overlay("configmap/state")).toEqual({ kind: "ConfigMap", name: "state" });
    expect(overlay("secret/state")).toEqual({ kind: "Secret", name: "state" });
    for (const wrong of ["Secret/state", "secret/", "pod/state", "secret/a/b", "UPPER"])
      expect(() => overlay(wrong)).toThrow(/--config-overlay: ".*" is not accepted; use secret\/NAME/);
    expect(() => overlay("secret/addon-operator")).toThrow(/has the name of the ConfigMap/);
  });

  it("refuses helm storage other than secrets", () => {
    expect(() => parseSettings([], { HELM_DRIVER: "sql" })).toThrow(/HELM_DRIVER/);
  });
});
