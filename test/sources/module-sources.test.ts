import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { putBundle } from "./registry/artifact/forge.ts";
import { keyPair } from "./registry/artifact/lab.ts";
import { ISSUER, ownSigstore, SUBJECT } from "./registry/cosign/own-sigstore.ts";
import { filesOf, KEYS, sourcesLab, type SourcesLab } from "./lab.ts";

const MINUTE = 60_000;
const INDEX = "application/vnd.oci.image.index.v1+json";

/** A process that leads, with version 1.4.2 in place. */
async function running(): Promise<SourcesLab> {
  const lab = await sourcesLab();
  await lab.push("1.4.2");
  lab.source({ web: { version: "1.4.2", order: 10, enabled: true } });
  await lab.start();
  await lab.pass(MINUTE, () => lab.content("web") === "1.4.2" && conditions(lab)["Ready"] === "True");
  return lab;
}

function conditions(lab: SourcesLab): Record<string, string> {
  return Object.fromEntries((lab.status().conditions ?? []).map(({ type, status }) => [type, status]));
}

const calls = ({ lab }: SourcesLab): number => lab.registry.calls.length;

describe("a version that a key has signed", () => {
  it("is locked, linked with its order and flag, and displayed", async () => {
    const lab = await running();
    expect(lab.locked("web")).toMatchObject({
      source: "platform",
      version: "1.4.2",
      verifiedBy: "ci.pub",
      order: 10,
    });
    expect(readdirSync(join(lab.dir, "modules"))).toEqual(["010-web", "values.yaml"]);
    const { modules, purgeBlockers } = await lab.tree();
    expect(modules).toMatchObject([
      { name: "web", order: 10, common: { enabled: true }, origin: { removed: false } },
    ]);
    expect(modules[0]?.problem).toBeUndefined();
    expect(purgeBlockers).toEqual([]);
    expect(lab.status()).toMatchObject({ summary: "1/1", modules: [{ name: "web", version: "1.4.2" }] });
    expect(lab.events.map(({ reason }) => reason)).toEqual(["SourceUpdated"]);
  });

  it("costs no request while nothing changes", async () => {
    const lab = await running();
    const before = calls(lab);
    await lab.pass(60 * MINUTE);
    expect(calls(lab)).toBe(before);
  });

  it("gives way to the digest that the source names next, and stays as the previous one", async () => {
    const lab = await running();
    const digest = await lab.push("1.5.0");
    lab.source({ web: { digest } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.locked("web")).toMatchObject({ digest, previous: { version: "1.4.2" } });
  });
});

describe("what is refused", () => {
  it("a foreign signature: the old content stays, and the registry is not asked for it in each check", async () => {
    const lab = await running();
    await lab.push("1.5.0", { key: keyPair() });
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(lab.content("web")).toBe("1.4.2");
    expect(lab.locked("web")).toMatchObject({ version: "1.4.2" });
    expect(lab.events.at(-1)?.reason).toBe("NotVerified");
    const blobs = (): number => lab.lab.registry.calls.filter(({ line }) => line.includes("/blobs/")).length;
    const before = blobs();
    await lab.pass(3 * MINUTE);
    expect(blobs()).toBe(before);
    await lab.pass(20 * MINUTE);
    expect(blobs() - before).toBeLessThanOrEqual(10);
    expect(lab.events.filter(({ reason }) => reason === "NotVerified")).toHaveLength(1);
  });

  it("words of a registry, which are displayed without what a terminal obeys", async () => {
    const lab = await running();
    await lab.push("1.5.0", { key: keyPair() });
    lab.lab.registry.instead = (line) =>
      line.includes("/referrers/")
        ? { status: 200, headers: { "content-type": INDEX }, body: "\u001b[2J\u009b31m{" }
        : undefined;
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => conditions(lab)["Ready"] === "False");
    const { error = "" } = lab.status().modules?.[0] ?? {};
    expect(error).toContain("referrers: Unexpected token");
    expect(error).not.toMatch(/\p{Cc}/u);
  });

  it("a signed artifact of another version under the tag", async () => {
    const lab = await running();
    await lab.push("1.3.0");
    const old = lab.lab.registry.manifests.get("modules/web@1.3.0");
    if (old !== undefined) lab.lab.registry.manifests.set("modules/web@1.5.0", old);
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(lab.status().modules?.[0]?.error).toContain('is version "1.3.0" of web, not "1.5.0"');
    expect(lab.content("web")).toBe("1.4.2");
  });

  it("content that cannot be read, before it replaces what runs", async () => {
    const lab = await running();
    const files = { ...filesOf("1.5.0"), "addon.yaml": "unknownKey: 1\n" };
    await lab.push("1.5.0", { files });
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(lab.status().modules?.[0]?.error).toContain("unknownKey: is no key of addon.yaml");
    expect(lab.content("web")).toBe("1.4.2");
  });

  it("everything without a key of the installer, until there is one", async () => {
    const lab = await sourcesLab();
    lab.api.put(KEYS, { data: {} });
    await lab.push("1.4.2");
    lab.source({ web: { version: "1.4.2" } });
    await lab.start();
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(lab.content("web")).toBeUndefined();
    lab.api.put(KEYS, { data: { "ci.pub": lab.lab.key.publicPem } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.content("web")).toBe("1.4.2");
  });
});

describe("a start", () => {
  it("sends nothing to a registry, and has the same content", async () => {
    const lab = await running();
    const before = calls(lab);
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await lab.start();
    expect(lab.content("web")).toBe("1.4.2");
    expect((await lab.tree()).modules[0]?.problem).toBeUndefined();
    expect(calls(lab)).toBe(before);
  });

  it.each([
    ["when the first converge has ended", true],
    ["10 s later, although the first converge goes on", false],
  ])("checks a source whose modules are all locked %s", async (_, endsEarly) => {
    const lab = await running();
    lab.source({ web: { version: "^1" } });
    await lab.pass(MINUTE, () => lab.status().observedGeneration === 2);
    lab.isConverging = true;
    await lab.start();
    const before = calls(lab);
    await lab.pass(9000);
    expect(calls(lab)).toBe(before);
    if (endsEarly) lab.state.record("bootPhaseReached", "running");
    await lab.pass(endsEarly ? 0 : 1000, () => calls(lab) > before);
  });

  it("checks at once, if a module of the source is not there", async () => {
    const lab = await running();
    await lab.push("1.4.2", { name: "api" });
    await lab.stop();
    lab.source({ web: { version: "1.4.2" }, api: { version: "1.4.2" } });
    lab.isConverging = true;
    await lab.start();
    const startedAt = lab.clock.monotonic();
    await lab.pass(1000, () => lab.content("api") === "1.4.2");
    expect(lab.clock.monotonic() - startedAt).toBeLessThan(6000);
  });

  it("shows what is locked as series, and after an update only the new content", async () => {
    const lab = await running();
    const shown = async (): Promise<string[]> =>
      (await lab.metrics.renderText())
        .split("\n")
        .filter((line) => line.startsWith("test_source_module_info{"));
    await lab.start();
    expect(await shown()).toEqual([expect.stringContaining('version="1.4.2"')]);
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    expect(await shown()).toEqual([expect.stringContaining('version="1.5.0"')]);
  });

  it("trusts no directory and no blob because it is there", async () => {
    const lab = await running();
    await lab.stop();
    const unpacked = join(lab.dir, "unpacked");
    const [digest = ""] = readdirSync(unpacked);
    writeFileSync(join(unpacked, digest, "Chart.yaml"), "tampered");
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await lab.start();
    expect(lab.content("web")).toBe("1.4.2");
    for (const name of readdirSync(join(lab.dir, "blobs/sha256")))
      writeFileSync(join(lab.dir, "blobs/sha256", name), "tampered");
    await lab.start();
    expect(lab.content("web")).toBeUndefined();
    const { modules, purgeBlockers } = await lab.tree();
    expect(modules[0]).toMatchObject({ name: "web", problem: { retriedAs: "SourceUnavailable" } });
    expect(purgeBlockers[0]).toContain("the content of module web is not available");
    lab.lab.registry.failures = { status: 503, left: 0 };
    await lab.pass(10 * MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.content("web")).toBe("1.4.2");
  });

  it("with an empty disk and no lock removes nothing: what a source names is a module", async () => {
    const lab = await running();
    await lab.stop();
    rmSync(lab.dir, { recursive: true });
    lab.api.remove("/api/v1/namespaces/ops/configmaps/addon-operator-modules");
    lab.lab.registry.failures = { status: 404, left: Infinity };
    await lab.start();
    const { modules } = await lab.tree();
    const problem = { retriedAs: "SourceUnavailable", isExpected: true };
    expect(modules).toMatchObject([{ name: "web", problem }]);
    await lab.pass(MINUTE, () => lab.registryModules.origins.get("web")?.problem?.isExpected === undefined);
    expect(lab.registryModules.origins.get("web")?.problem?.message).toContain("does not show web:1.4.2");
  });

  it("with another key does not load what only the old one has signed", async () => {
    const lab = await running();
    await lab.stop();
    lab.api.put(KEYS, { data: { "new.pub": keyPair().publicPem } });
    await lab.start();
    expect(lab.content("web")).toBeUndefined();
    expect((await lab.tree()).modules[0]?.problem?.message).toContain("is locked, but not trusted");
  });
});

describe("a follower", () => {
  it("fetches what the leader locks, and takes over without the registry", async () => {
    const lab = await running();
    const follower = await lab.follow();
    expect(follower.content("web")).toBeUndefined();
    await lab.pass(MINUTE, () => follower.unpacked() === 1);
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0" && follower.unpacked() === 2);
    lab.lab.registry.failures = { status: 503, left: Infinity };
    const before = calls(lab);
    await follower.takeOver();
    expect(follower.content("web")).toBe("1.5.0");
    expect(calls(lab)).toBe(before);
  });

  it("fetches what the leader accepts with new keys", async () => {
    const lab = await running();
    const follower = await lab.follow();
    await lab.pass(MINUTE, () => follower.unpacked() === 1);
    const key = keyPair();
    lab.api.put(KEYS, { data: { "ci.pub": lab.lab.key.publicPem, "new.pub": key.publicPem } });
    await lab.push("1.5.0", { key });
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    await lab.pass(MINUTE);
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await follower.takeOver();
    expect(follower.content("web")).toBe("1.5.0");
  });
});

describe("a module that no source names", () => {
  it("is switched off after a second look, and forgotten once it is deleted", async () => {
    const lab = await running();
    lab.releases.add("web");
    lab.source({});
    await lab.pass(2000);
    expect(lab.locked("web")).not.toHaveProperty("removed");
    const isOff = (): boolean => lab.registryModules.origins.get("web")?.removed === true;
    await lab.pass(MINUTE, isOff);
    expect(lab.warnings).toEqual([]);
    expect(lab.locked("web")).toMatchObject({ removed: true });
    expect((await lab.tree()).modules).toMatchObject([{ name: "web", origin: { removed: true } }]);
    expect(lab.content("web")).toBe("1.4.2");
  });

  it("stays if its source is there again at the second look", async () => {
    const lab = await running();
    lab.removeSource();
    await lab.pass(2000);
    lab.source({ web: { version: "1.4.2" } });
    await lab.pass(MINUTE);
    expect(lab.locked("web")).not.toHaveProperty("removed");
  });

  it("stays if the CRD was deleted, also when that is there again", async () => {
    const lab = await running();
    lab.crd = undefined;
    lab.removeSource();
    await lab.pass(5 * MINUTE);
    expect(lab.locked("web")).not.toHaveProperty("removed");
    lab.crd = "crd-2";
    await lab.pass(5 * MINUTE);
    expect(lab.locked("web")).not.toHaveProperty("removed");
    expect((await lab.tree()).modules).toMatchObject([{ name: "web", origin: { removed: false } }]);
  });
});

describe("a key that cannot be read", () => {
  it("is named, and is not the reason any more once it is corrected, although the registry is away", async () => {
    const lab = await sourcesLab();
    const keys = { data: { "ci.pub": lab.lab.key.publicPem } };
    lab.api.put(KEYS, { data: { "ci.pub": "hello" } });
    await lab.push("1.4.2");
    lab.source({ web: { version: "1.4.2" } });
    await lab.start();
    const conditions = () =>
      Object.fromEntries((lab.status().conditions ?? []).map(({ type, ...each }) => [type, each]));
    const isRefused = (): boolean => conditions()["Stalled"]?.reason === "NotVerified";
    await lab.pass(MINUTE, isRefused);
    expect(conditions()["Ready"]?.message).toBe(
      "web: the installer names no key or identity for this source, so no module is accepted (--source-keys): ci.pub: contains no PEM public key (use the .pub file of `cosign generate-key-pair`)",
    );
    expect(lab.registryModules.origins.get("web")?.problem?.message).toContain(
      "ci.pub: contains no PEM public key",
    );
    // Also for a process that knows the refusal from the status only.
    for (const isRestarted of [false, true]) {
      lab.api.put(KEYS, { data: {} });
      await lab.pass(MINUTE, isRefused);
      lab.lab.registry.failures = { status: 503, left: Infinity };
      if (isRestarted) await lab.stop();
      lab.api.put(KEYS, keys);
      if (isRestarted) await lab.start();
      await lab.pass(MINUTE, () => "CheckFailed" in conditions());
      expect(conditions()).toMatchObject({ Ready: { status: "False", reason: "CheckFailed" } });
      expect(conditions()).not.toHaveProperty("Stalled");
    }
    lab.lab.registry.failures = { status: 503, left: 0 };
    await lab.pass(10 * MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.content("web")).toBe("1.4.2");
  });
});

describe("a module that an identity has signed", () => {
  it("is used, and not any more when the trusted root is gone", async () => {
    const lab = await sourcesLab();
    const sigstore = ownSigstore();
    const identity = { "ci.identity": `issuer: ${ISSUER}\nsubject: ${SUBJECT}\n` };
    lab.api.put(KEYS, { data: { ...identity, "trusted_root.json": sigstore.trustedRoot() } });
    const digest = await lab.lab.push("1.4.2", { key: "none" });
    putBundle(lab.lab.registry, { key: { sigstore }, digest });
    lab.source({ web: { version: "1.4.2" } });
    await lab.start();
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.locked("web")).toMatchObject({ verifiedBy: "ci.identity" });
    await lab.start();
    expect(lab.content("web")).toBe("1.4.2");
    lab.api.put(KEYS, { data: identity });
    const problem = (): string | undefined => lab.registryModules.origins.get("web")?.problem?.message;
    await lab.pass(MINUTE, () => problem() !== undefined);
    expect(problem()).toContain(
      "is locked, but not trusted: the installer names no key or identity for this source",
    );
    expect(lab.content("web")).toBeUndefined();
  });
});
