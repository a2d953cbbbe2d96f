import { describe, expect, it } from "vitest";

import { checkAnnotations, type ReviewAnswer } from "../../../src/surface/admit/index.ts";
import type { Problem } from "../../../src/base/model/index.ts";
import { EngineLab } from "../../support/engine-lab.ts";
import { begin } from "../../support/state.ts";

const REQUEST = "reconcile.addon-operator.io/requestedAt";
const CRDS = "addon-operator.io/confirm-crds";
const TAKEOVER = "addon-operator.io/confirm-takeover";
const DELETE = "addon-operator.io/confirm-delete";
const NAMES = ["a", "b", "c", "d", "e"];

async function world(): Promise<EngineLab> {
  const config = Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"]));
  const lab = new EngineLab({ deletionLimit: "3,50%", config, modules: NAMES.map((name) => ({ name })) });
  await lab.start();
  return lab;
}

const question = (annotation: string, token: string) => ({
  annotation,
  token,
  command: `the command of ${token}`,
});

/** The module waits for a confirmation of its CRDs. */
function askCrds(lab: EngineLab, token: string): void {
  const problem: Problem = { file: "crds/x.yaml", message: "breaks", question: question(CRDS, token) };
  lab.state.recordModule("a", "problemFound", problem);
}

/** The module waits for a confirmation of objects that it takes over. */
function askTakeover(lab: EngineLab, token: string): void {
  begin(lab.state, "a");
  const failure = { reason: "ObjectsExist", message: "m", line: "m", failures: 1 } as const;
  lab.state.recordModule("a", "runFailed", { ...failure, question: question(TAKEOVER, token) }, 0);
}

/** All modules are switched off, which needs a confirmation. Returns its token. */
async function askDelete(lab: EngineLab): Promise<string> {
  lab.edit(Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, undefined])));
  await lab.run();
  return lab.state.view.deletionLimit?.token ?? "";
}

type Annotations = Record<string, string>;

interface Place {
  readonly before?: Annotations;
  readonly name?: string;
}

const onModule = (
  lab: EngineLab,
  after: Annotations,
  { before = {}, name = "a" }: Place = {},
): ReviewAnswer => checkAnnotations({ kind: "AddonModule", name, before, after }, lab.state.view);
const onOperator = (lab: EngineLab, after: Annotations, name = "addon-operator"): ReviewAnswer =>
  checkAnnotations({ kind: "AddonOperator", name, before: {}, after }, lab.state.view);

const ALLOWED = { allowed: true, warnings: [] };

describe("requests", () => {
  it.each(["1732570000", "a b", "x".repeat(256)])("the token %j is accepted", async (token) => {
    const lab = await world();
    expect(onModule(lab, { [REQUEST]: token })).toEqual(ALLOWED);
    expect(onOperator(lab, { [REQUEST]: token })).toEqual(ALLOWED);
  });

  it.each(["", "ä", "a\nb", "x".repeat(257)])(
    "the token %j is refused, with the right command",
    async (token) => {
      const lab = await world();
      const tail = `-n default addonmodule/a ${REQUEST}="$(date +%s)"`;
      expect(onModule(lab, { [REQUEST]: token })).toMatchObject({
        allowed: false,
        message: expect.stringMatching(/^reconcile.*: The token of a request is invalid; use at most 256/),
      });
      expect(onModule(lab, { [REQUEST]: token }).message).toContain(tail);
      expect(onOperator(lab, { [REQUEST]: token }).message).toContain("addonoperator/addon-operator");
    },
  );

  it("that did not change are not looked at", async () => {
    expect(onModule(await world(), { [REQUEST]: "ä" }, { before: { [REQUEST]: "ä" } })).toEqual(ALLOWED);
  });
});

describe("confirmations", () => {
  it.each([
    ["CRDs", CRDS, askCrds],
    ["a takeover", TAKEOVER, askTakeover],
  ])("of %s: the open token passes, a stale one gets the right command", async (_, key, ask) => {
    const lab = await world();
    ask(lab, "0123456789ab");
    expect(onModule(lab, { [key]: "0123456789ab" })).toEqual(ALLOWED);
    const { allowed, message } = onModule(lab, { [key]: "ba9876543210" });
    expect(allowed).toBe(false);
    expect(message).toBe(
      `${key}: ba9876543210 does not confirm what waits for a confirmation now; to confirm that: the command of 0123456789ab`,
    );
  });

  it("of a removal: the open token passes, a stale one gets the right command", async () => {
    const lab = await world();
    const token = await askDelete(lab);
    expect(onOperator(lab, { [DELETE]: token })).toEqual(ALLOWED);
    expect(onOperator(lab, { [DELETE]: "stale" }).message).toContain(
      `addonoperator/addon-operator ${DELETE}=${token}`,
    );
  });

  it("are refused where nothing waits for one", async () => {
    const lab = await world();
    expect(onModule(lab, { [CRDS]: "0123456789ab" }).message).toMatch(/confirms nothing: .* addonmodule\/a$/);
    expect(onOperator(lab, { [DELETE]: "0123456789ab" }).message).toMatch(/confirms nothing/);
  });

  it("of one kind do not answer another", async () => {
    const lab = await world();
    askCrds(lab, "0123456789ab");
    expect(onModule(lab, { [TAKEOVER]: "0123456789ab" }).allowed).toBe(false);
  });

  it("pass while it is not known yet what waits for one: at the start, in a converge, in a run", async () => {
    const starting = new EngineLab({ modules: [{ name: "a" }] });
    expect(onModule(starting, { [CRDS]: "x" })).toEqual(ALLOWED);
    expect(onOperator(starting, { [DELETE]: "x" })).toEqual(ALLOWED);
    const lab = await world();
    begin(lab.state, "a");
    expect(onModule(lab, { [CRDS]: "x" })).toEqual(ALLOWED);
    expect(onModule(lab, { [CRDS]: "x" }, { name: "b" }).allowed).toBe(false);
  });

  it("may be removed and emptied at any time", async () => {
    const lab = await world();
    expect(onModule(lab, {}, { before: { [CRDS]: "x", [REQUEST]: "y" } })).toEqual(ALLOWED);
    expect(onModule(lab, { [CRDS]: "" }, { before: { [CRDS]: "x" } })).toEqual(ALLOWED);
  });

  it("quote no more than the beginning of a long value", async () => {
    const { message = "" } = onModule(await world(), { [CRDS]: "x".repeat(100_000) });
    expect(message.length).toBeLessThan(500);
  });
});

describe("other annotations", () => {
  it.each([
    ["addon-operator.io/confirm-crd", "(did you mean addon-operator.io/confirm-crds?)"],
    ["addon-operator.io/requestedAt", "has no effect on an AddonModule"],
    [DELETE, "has no effect on an AddonModule"],
  ])("%s is a warning", async (key, text) => {
    const { allowed, warnings } = onModule(await world(), { [key]: "1" });
    expect(allowed).toBe(true);
    expect(warnings).toEqual([expect.stringContaining(text)]);
  });

  it("of others, of another operator and of unknown modules are left alone", async () => {
    const lab = await world();
    expect(onModule(lab, { "example.com/addon-operator.io": "1" })).toEqual(ALLOWED);
    expect(onOperator(lab, { [DELETE]: "1" }, "other")).toEqual(ALLOWED);
    expect(onModule(lab, { [CRDS]: "1" }, { name: "unknown" })).toEqual(ALLOWED);
  });
});

it("accepts the approval of an update, and refuses a value that can approve none", async () => {
  const lab = await world();
  const approve = (value: string) => onModule(lab, { "addon-operator.io/approve": value });
  for (const value of ["", `1.2.0@sha256:${"a".repeat(64)}`])
    expect(approve(value)).toEqual({ allowed: true, warnings: [] });
  for (const value of ["1.2.0", "yes", "1.2.0@sha256:abc", `@sha256:${"a".repeat(64)}`])
    expect(approve(value)).toMatchObject({
      allowed: false,
      message: expect.stringContaining("must be VERSION@sha256:DIGEST") as string,
    });
});
