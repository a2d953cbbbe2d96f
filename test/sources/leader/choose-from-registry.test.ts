import { describe, expect, it } from "vitest";

import { chooseFromRegistry, type RegistryChoiceInput } from "../../../src/sources/leader/choose.ts";
import { RegistryError, type Repository } from "../../../src/sources/registry/index.ts";
import type { LockEntry, ModuleRequest } from "../../../src/sources/types.ts";
import { registryLab, type Lab } from "../registry/artifact/lab.ts";
import { sha256 } from "../../support/registry.ts";

const REPOSITORY = "modules/web";

const lockedAt = (version: string, digest: string): LockEntry => ({
  source: "s",
  version,
  digest,
  verifiedBy: "k",
  at: 0,
});

function questionFor(
  lab: Lab,
  request: ModuleRequest,
  change: Partial<RegistryChoiceInput> = {},
): RegistryChoiceInput {
  return {
    name: "web",
    request,
    locked: undefined,
    update: undefined,
    approved: undefined,
    now: 0,
    timeZone: "UTC",
    verifiedContents: [],
    registry: { mirrorCount: 0, queryVersions: (name, ask) => ask(lab.place(name).repository) },
    onMirrorSkipped: () => {},
    fetchVersion: async ({ version, digest }) => {
      const found = await lab.find(`web@${digest}`);
      if (version !== undefined && version !== found.version)
        throw new Error(`it is version ${found.version}`);
      return found.version;
    },
    ...change,
  };
}

/** What is chosen, and the calls for it. */
async function ask(
  lab: Lab,
  request: ModuleRequest,
  change: Partial<RegistryChoiceInput> = {},
): Promise<readonly [string, readonly string[]]> {
  const before = lab.registry.calls.length;
  const choice = await chooseFromRegistry(questionFor(lab, request, change));
  const calls = lab.registry.calls.slice(before).map(({ line }) => line.replace(`/v2/${REPOSITORY}/`, ""));
  const version = "candidate" in choice ? ` ${choice.candidate.version}` : "";
  return [`${choice.kind}${version}`, calls];
}

/** A registry with versions, of which `stable` names the first. */
async function labWith(...versions: readonly string[]): Promise<{ lab: Lab; digests: readonly string[] }> {
  const lab = await registryLab({ hasReferrers: true });
  const digests: string[] = [];
  for (const version of versions) digests.push(await lab.push(version));
  await lab.tag(`web:${versions[0]}`, "stable");
  return { lab, digests };
}

describe("requests without news", () => {
  it.each<[string, ModuleRequest, readonly string[]]>([
    ["an exact version", { version: "1.4.2" }, []],
    ["a tag", { tag: "stable" }, ["HEAD manifests/stable"]],
    ["a range", { version: "~1.4" }, ["GET tags/list"]],
  ])("%s", async (_, request, calls) => {
    const { lab, digests } = await labWith("1.4.2");
    const locked = lockedAt("1.4.2", digests[0] ?? "");
    expect(await ask(lab, request, { locked })).toEqual(["keep", calls]);
  });

  it("a digest", async () => {
    const { lab, digests } = await labWith("1.4.2");
    const [digest = ""] = digests;
    expect(await ask(lab, { digest }, { locked: lockedAt("1.4.2", digest) })).toEqual(["keep", []]);
  });

  it("what waits is not verified again", async () => {
    const { lab, digests } = await labWith("1.5.0", "1.4.2");
    const [newer = "", digest = ""] = digests;
    const update = { approval: "manual", windows: [], minAgeMs: 0 } as const;
    const change = {
      locked: lockedAt("1.4.2", digest),
      update,
      verifiedContents: [{ version: "1.5.0", digest: newer }],
    };
    expect(await ask(lab, { tag: "stable" }, change)).toEqual(["wait 1.5.0", ["HEAD manifests/stable"]]);
    expect(await ask(lab, { version: "^1" }, change)).toEqual([
      "wait 1.5.0",
      ["GET tags/list", "HEAD manifests/1.5.0"],
    ]);
  });
});

describe("news", () => {
  it("of a tag and of a range are verified by digest", async () => {
    const { lab, digests } = await labWith("1.5.0", "1.4.2", "2.0.0");
    const [newer = "", digest = ""] = digests;
    const locked = lockedAt("1.4.2", digest);
    const [tag, calls] = await ask(lab, { tag: "stable" }, { locked });
    expect([tag, calls.slice(0, 2)]).toEqual([
      "apply 1.5.0",
      ["HEAD manifests/stable", `GET manifests/${newer}`],
    ]);
    expect((await ask(lab, { version: "^1" }, { locked }))[0]).toBe("apply 1.5.0");
    expect((await ask(lab, { version: "2.0.0" }, { locked }))[0]).toBe("apply 2.0.0");
    expect((await ask(lab, { digest: newer }, { locked }))[0]).toBe("apply 1.5.0");
  });

  it("a tag that a version does not deserve is refused, also if its content is known", async () => {
    const { lab, digests } = await labWith("1.4.2");
    const [digest = ""] = digests;
    const stored = lab.registry.manifests.get(`${REPOSITORY}@${digest}`);
    if (stored !== undefined) lab.registry.manifests.set(`${REPOSITORY}@9.0.0`, stored);
    const locked = lockedAt("1.4.2", digest);
    const asked = ask(lab, { version: "*" }, { locked, verifiedContents: [{ version: "1.4.2", digest }] });
    await expect(asked).rejects.toThrow("it is version 1.4.2");
  });

  it("an approved version is asked for before a newer one", async () => {
    const { lab, digests } = await labWith("1.4.2", "1.4.3", "1.5.0");
    const [digest = "", approved = ""] = digests;
    const update = { approval: "manual", windows: [], minAgeMs: 0 } as const;
    const change = { locked: lockedAt("1.4.2", digest), update };
    expect((await ask(lab, { version: "^1" }, { ...change, approved: `1.4.3@${approved}` }))[0]).toBe(
      "apply 1.4.3",
    );
    expect((await ask(lab, { version: "^1" }, { ...change, approved: `1.4.3@${sha256("x")}` }))[0]).toBe(
      "wait 1.5.0",
    );
  });
});

describe("what the registry does not have", () => {
  it("no tag, no version in the range, no repository: what is locked stays", async () => {
    const { lab, digests } = await labWith("1.4.2");
    const locked = lockedAt("1.4.2", digests[0] ?? "");
    lab.registry.manifests.clear();
    const kept = async (request: ModuleRequest): Promise<unknown> =>
      chooseFromRegistry(questionFor(lab, request, { locked }));
    expect(await kept({ tag: "stable" })).toEqual({ kind: "keep", reason: "the registry has no tag stable" });
    expect(await kept({ version: "^1" })).toEqual({
      kind: "keep",
      reason: "the registry has no version in the range ^1",
    });
    lab.registry.instead = () => ({ status: 404 });
    expect(await kept({ version: "^1" })).toMatchObject({ kind: "keep" });
    expect(await kept({ version: "1.4.2" })).toEqual({ kind: "keep" });
    await expect(kept({ version: "1.5.0" })).rejects.toThrow("the registry does not show web:1.5.0");
  });

  it("too many tags for a range are an error, not a choice among some of them", async () => {
    const { lab } = await labWith("1.4.2");
    lab.registry.instead = (line) =>
      line.includes("tags")
        ? {
            status: 200,
            headers: { link: `</v2/${REPOSITORY}/tags/list?last=x>; rel="next"` },
            body: '{"tags":["1.0.0"]}',
          }
        : undefined;
    await expect(ask(lab, { version: "^1" })).rejects.toThrow(
      "more than 1 tags of web, too many for a range",
    );
  });

  it("tags that move with each call end in an error", async () => {
    const { lab } = await labWith("1.4.2", "1.4.3", "1.4.4", "1.4.5", "1.4.6");
    let turn = 0;
    const verify = (): Promise<string> => Promise.resolve(`1.0.${(turn += 1)}`);
    const update = { approval: "manual", windows: [], minAgeMs: 0 } as const;
    await expect(ask(lab, { version: "^1" }, { fetchVersion: verify, update })).rejects.toThrow(
      "its tags change all the time",
    );
  });
});

it("content of a mirror's tag that nobody has signed gives way to what the registry names", async () => {
  const mirror = await registryLab({ hasReferrers: true });
  const { lab: registry, digests } = await labWith("1.2.0");
  const unsigned = await mirror.push("1.3.0", { key: "none" });
  await mirror.tag("web:1.3.0", "stable");
  const skipped: string[] = [];
  const change = {
    registry: {
      mirrorCount: 1,
      queryVersions: <T>(name: string, query: (offers: Repository) => Promise<T>, skip: number) =>
        query((skip === 0 ? mirror : registry).place(name).repository),
    } as RegistryChoiceInput["registry"],
    onMirrorSkipped: (error: Error) => void skipped.push(error.message),
    fetchVersion: ({ digest }: { digest: string }) =>
      digest === unsigned
        ? Promise.reject(new RegistryError("has no valid signature; 404"))
        : Promise.resolve("1.2.0"),
  };
  for (const request of [{ tag: "stable" }, { version: "^1" }]) {
    const choice = await chooseFromRegistry(questionFor(registry, request, change));
    expect(choice).toMatchObject({ kind: "apply", candidate: { version: "1.2.0", digest: digests[0] } });
  }
  expect(skipped).toEqual(["has no valid signature; 404", "has no valid signature; 404"]);
  const withdrawn = { ...change, registry: { ...change.registry, mirrorCount: 0 } };
  await expect(chooseFromRegistry(questionFor(registry, { tag: "stable" }, withdrawn))).rejects.toThrow(
    "404",
  );
});
