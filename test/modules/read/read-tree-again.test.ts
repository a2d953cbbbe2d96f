import { stat, utimes } from "node:fs/promises";
import { describe, expect, it } from "vitest";

import { ManualClock } from "../../support/clock.ts";
import { Directories, directories } from "../module-directories.ts";

describe("a further read of the directories", () => {
  it("keeps modules whose files and common values did not change", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {}\n");
    await on.put("m/values.yaml", "x: {a: 1}\n");
    const first = await on.read();
    const second = await on.read(first);
    expect(second.modules[0]).toBe(first.modules[0]);
    expect(second.globalValues).toBe(first.globalValues);
  });

  it("takes an edit of the common values over, without any file of the module changed", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {}\n");
    await on.put("m/values.yaml", "x: {a: 1}\n");
    const first = await on.read();
    await on.put("m/values.yaml", "x: {a: 22}\nxEnabled: true\n");
    const second = await on.read(first);
    expect(second.modules[0]?.common).toMatchObject({ section: { a: 22 }, enabled: true });
    await on.put("m/z/README.md");
    const third = await on.read(second);
    expect(third.modules[1]?.common).toMatchObject({ section: undefined });
  });

  it("keeps the common values that vanished until a second look", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/values.yaml", "x: {a: 1}\nglobal: {g: 1}\n");
    const first = await on.read();
    await on.remove("m/values.yaml");
    const missed = await on.read(first);
    expect([missed.modules[0]?.common.section, missed.globalValues]).toEqual([{ a: 1 }, { g: 1 }]);
    expect(missed.recheckAt).toBe(on.clock.now() + 2000);
    await on.clock.advance(2000);
    const late = await on.read(missed);
    expect([late.modules[0]?.common.section, late.globalValues]).toEqual([undefined, undefined]);
  });

  it("waits for the second look, whatever the wall clock is set to", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/values.yaml", "x: {a: 1}\n");
    const first = await on.read();
    await on.remove("m/values.yaml");
    const missed = await on.read(first);
    on.clock.setWall(48 * 3_600_000);
    const early = await on.read(missed);
    expect(early.modules[0]?.common.section).toEqual({ a: 1 });
    on.clock.setWall(-96 * 3_600_000);
    await on.clock.advance(2000);
    expect((await on.read(early)).modules[0]?.common.section).toBeUndefined();
  });

  it("takes over what a further directory says of a module", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/values.yaml", "x: {a: 1}\n");
    await on.put("n/y/README.md");
    const dirs = ["m", "n"];
    const first = await on.read(undefined, { dirs });
    await on.put("n/values.yaml", "x: {b: 2}\n");
    expect((await on.read(first, { dirs })).modules[0]?.common.section).toEqual({ a: 1, b: 2 });
  });

  it("reads a file again that changed just before, for it may have changed since with the same stamps", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {}\n");
    const changedAt = (await stat(on.at("m/x/values.yaml"))).ctimeMs;
    // An old time of modification, as `cp -p` leaves it, says nothing of when it came here.
    await utimes(on.at("m/x/values.yaml"), 1, 1);
    const touchedAt = (await stat(on.at("m/x/values.yaml"))).ctimeMs;
    expect(touchedAt).toBeGreaterThanOrEqual(changedAt);
    const readTwice = async (now: number): Promise<boolean> => {
      const then = new Directories(on.root, new ManualClock(now));
      const first = await then.read();
      return (await then.read(first)).modules[0] === first.modules[0];
    };
    expect(await readTwice(touchedAt + 50)).toBe(false);
    expect(await readTwice(touchedAt + 51)).toBe(true);
  });

  it("looks again when the first of what is missed can be confirmed, and believes each in its own time", async () => {
    const on = await directories();
    for (const name of ["x", "y"]) await on.put(`m/${name}/hooks/a.sh`, "", 0o755);
    await on.put("m/x/hooks/b.sh", "", 0o755);
    const hooks = (tree: Awaited<ReturnType<Directories["read"]>>) =>
      tree.modules.map(({ hookFiles }) => hookFiles.length);
    const first = await on.read();
    const begin = on.clock.now();
    await on.remove("m/x/hooks/a.sh");
    const missed = await on.read(first);
    expect(missed.modules[0]?.unconfirmedMissing).toEqual({ since: begin, what: ["hooks/a.sh"] });
    await on.clock.advance(1500);
    await on.remove("m/x/hooks/b.sh");
    await on.remove("m/y/hooks/a.sh");
    const more = await on.read(missed);
    expect(more.modules[0]?.unconfirmedMissing).toEqual({ since: begin, what: ["hooks/a.sh", "hooks/b.sh"] });
    expect(more.recheckAt).toBe(begin + 2000);
    await on.clock.advance(500);
    const half = await on.read(more);
    expect(hooks(half)).toEqual([2, 1]);
    expect(half.recheckAt).toBe(begin + 3500);
    await on.clock.advance(1500);
    const late = await on.read(half);
    expect([hooks(late), late.recheckAt]).toEqual([[0, 0], undefined]);
  });

  it("says that a whole directory is gone", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/y/README.md");
    const first = await on.read();
    await on.remove("m/x");
    expect((await on.read(first)).modules[0]?.unconfirmedMissing).toEqual({
      since: on.clock.now(),
      what: ["."],
    });
  });

  it("takes a module from its other directory as that has it", async () => {
    const on = await directories();
    await on.put("m/x/hooks/a.sh", "", 0o755);
    await on.put("m/y/README.md");
    await on.put("n/x/README.md");
    const dirs = ["m", "n"];
    const first = await on.read(undefined, { dirs });
    await on.remove("m/x");
    const [x] = (await on.read(first, { dirs })).modules;
    expect(x).toMatchObject({ dir: on.at("n/x"), hookFiles: [] });
    expect(x?.unconfirmedMissing).toBeUndefined();
  });

  it("keeps the last good content of a module that cannot be listed any more", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {a: 1}\n");
    const first = await on.read();
    await on.link("m/x/enabled", "enabled");
    const second = await on.read(first);
    expect(second.modules[0]).toMatchObject({ own: { section: { a: 1 } }, problem: { file: on.at("m/x") } });
    await on.remove("m/x/enabled");
    const third = await on.read(second);
    expect(third.modules[0]?.problem).toBeUndefined();
    // What it had was remembered all the while.
    await on.remove("m/x/values.yaml");
    const broken = await on.read(third);
    expect(broken.modules[0]?.unconfirmedMissing?.what).toEqual(["values.yaml"]);
  });

  it("remembers the files of a module while it cannot be listed", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {a: 1}\n");
    const first = await on.read();
    await on.link("m/x/enabled", "enabled");
    const broken = await on.read(first);
    await on.remove("m/x/enabled");
    await on.remove("m/x/values.yaml");
    expect((await on.read(broken)).modules[0]?.unconfirmedMissing?.what).toEqual(["values.yaml"]);
  });

  it("reads a module on that could not be listed at first", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {a: 1}\n");
    await on.link("m/x/enabled", "enabled");
    const first = await on.read();
    expect((await on.read(first)).modules[0]?.problem?.message).toMatch(/ELOOP/);
    await on.remove("m/x/enabled");
    expect((await on.read(first)).modules[0]).toMatchObject({
      own: { section: { a: 1 } },
      problem: undefined,
    });
  });

  it("keeps what the modules directory held while it cannot be read, and says so", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("n/y/README.md");
    const dirs = ["m", "n"];
    const first = await on.read(undefined, { dirs });
    await on.move("n", "away");
    const again = await on.read(first, { dirs });
    expect(again.modules.map(({ name }) => name)).toEqual(["x", "y"]);
    expect(again.warnings).toEqual(again.purgeBlockers);
    expect(again.warnings).toEqual([
      expect.stringMatching(/\/n: cannot be read: ENOENT.*\(create it, or correct --modules-dir\)$/),
    ]);
  });
});

describe("a further read of the global hooks", () => {
  const files = { "global/hooks/a.sh": 0o755, "global/openapi/values.yaml": 0o644 };

  async function world(): Promise<Directories> {
    const on = await directories();
    await on.put("m/x/README.md");
    for (const [rel, mode] of Object.entries(files)) await on.put(rel, "type: object\n", mode);
    return on;
  }

  it.each(Object.keys(files))("believes at the second look that %s is gone", async (rel) => {
    const on = await world();
    const first = await on.read();
    await on.remove(rel);
    const missed = await on.read(first);
    expect([missed.globalHookFiles, missed.globalSchemas]).toEqual([
      first.globalHookFiles,
      first.globalSchemas,
    ]);
    expect(missed.recheckAt).toBe(on.clock.now() + 2000);
    await on.clock.advance(2000);
    const late = await on.read(missed);
    const left = [late.globalHookFiles.length, Object.keys(late.globalSchemas).length];
    expect(left).toEqual(rel.endsWith(".sh") ? [0, 1] : [1, 0]);
    expect(late.recheckAt).toBeUndefined();
  });

  it("takes changed and new hooks over at once", async () => {
    const on = await world();
    const first = await on.read();
    await on.put("global/hooks/b.sh", "", 0o755);
    const second = await on.read(first);
    expect(second.globalHookFiles.map(({ name }) => name)).toEqual(["hooks/a.sh", "hooks/b.sh"]);
    expect(second.recheckAt).toBeUndefined();
  });

  it("keeps the last good content where the directory cannot be listed, and says so", async () => {
    const on = await world();
    const first = await on.read();
    await on.link("global/hooks/loop", "loop");
    const broken = await on.read(first);
    expect(broken.globalHookFiles).toEqual(first.globalHookFiles);
    expect(broken.problems).toMatchObject([
      { file: on.at("global/hooks/loop"), message: expect.stringMatching(/^cannot be read: ELOOP/) },
    ]);
  });
});
