import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

import type { Tree } from "../../src/base/model/index.ts";
import { ChartArchives, readTree } from "../../src/modules/index.ts";
import { ManualClock } from "../support/clock.ts";

/** Directories of one test, with `m` for modules and `global` for global hooks. */
export class Directories {
  readonly root: string;
  /** Far in the future of the files, so that their stamps count as settled. */
  readonly clock: ManualClock;
  readonly archives: ChartArchives;

  constructor(root: string, clock: ManualClock) {
    this.root = root;
    this.clock = clock;
    this.archives = new ChartArchives(this.at("tmp"));
  }

  /** Where something below the root lies. */
  at(rel: string): string {
    return join(this.root, rel);
  }

  async put(rel: string, text = "", mode = 0o644): Promise<void> {
    await mkdir(dirname(this.at(rel)), { recursive: true });
    await writeFile(this.at(rel), text);
    await chmod(this.at(rel), mode);
  }

  async link(rel: string, target: string): Promise<void> {
    await mkdir(dirname(this.at(rel)), { recursive: true });
    await symlink(target, this.at(rel));
  }

  async remove(rel: string): Promise<void> {
    await rm(this.at(rel), { recursive: true });
  }

  async move(from: string, to: string): Promise<void> {
    await rename(this.at(from), this.at(to));
  }

  read(
    previous?: Tree,
    options: { dirs?: readonly string[]; strict?: boolean; crdFilters?: string } = {},
  ): Promise<Tree> {
    return readTree({
      modulesDirs: (options.dirs ?? ["m"]).map((dir) => this.at(dir)),
      globalHooksDir: this.at("global"),
      unnumberedOrder: 1,
      strict: options.strict ?? false,
      crdFilters: options.crdFilters ?? "doc-,_",
      previous,
      archives: this.archives,
      clock: this.clock,
    });
  }
}

/** Fresh directories that go with the test. */
export async function directories(now = Date.now() + 86_400_000): Promise<Directories> {
  const root = await mkdtemp(join(tmpdir(), "modules-test-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  await mkdir(join(root, "m"));
  await mkdir(join(root, "global"));
  return new Directories(root, new ManualClock(now));
}
