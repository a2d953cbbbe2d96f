// A cgroup with a share of the processors, as a Pod with a limit has it.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PERIOD_US = 100_000;

/**
 * Creates a cgroup (version 2 or 1) whose processes get `cpus` processors. `words` come before the words of a command that is
 * to run in it; `remove` removes it when they have ended. Needs the right to create cgroups.
 */
export function limitCpus(cpus, root = "/sys/fs/cgroup") {
  const quota = Math.round(cpus * PERIOD_US);
  const dir = join(parentOf(root), `bench-${process.pid}`);
  mkdirSync(dir, { recursive: true });
  if (existsSync(join(root, "cgroup.controllers")))
    writeFileSync(join(dir, "cpu.max"), `${quota} ${PERIOD_US}`);
  else {
    writeFileSync(join(dir, "cpu.cfs_period_us"), String(PERIOD_US));
    writeFileSync(join(dir, "cpu.cfs_quota_us"), String(quota));
  }
  const enter = `echo $$ >'${join(dir, "cgroup.procs")}' && exec "$@"`;
  return { words: ["/bin/sh", "-c", enter, "sh"], remove: () => rmdirSync(dir) };
}

/** Where new cgroups may be made: the root of the hierarchy that has the controller of processors. */
function parentOf(root) {
  if (!existsSync(join(root, "cgroup.controllers"))) {
    const found = readdirSync(root).find((name) => name.split(",").includes("cpu"));
    if (found === undefined) throw new Error(`--cpus: there is no cgroup controller "cpu" below ${root}`);
    return join(root, found);
  }
  const control = join(root, "cgroup.subtree_control");
  if (!readFileSync(control, "utf8").split(/\s/).includes("cpu")) writeFileSync(control, "+cpu");
  return root;
}
