// What `npm run test:compat` runs: a few rows, in which each version meets each other one of another tool.
import semver from "semver";

/**
 * Of Kubernetes and jq the oldest and the newest, both helms, and busybox in place of `sh` where it can be put there.
 * `{ kubernetes, helm, jq, sh }` each; with one jq or one shell alone some rows are alike in it.
 */
export function rowsOf({ kubernetes, jqs, shells }) {
  const [oldest, newest] = [kubernetes[0], kubernetes.at(-1)];
  const [oldJq, newJq] = [jqs[0], jqs.at(-1)];
  const [usual, other] = [shells[0], shells.at(-1)];
  const rows = [
    { kubernetes: oldest, helm: "helm", jq: oldJq, sh: usual },
    { kubernetes: oldest, helm: "helm3", jq: newJq, sh: other },
    { kubernetes: newest, helm: "helm3", jq: oldJq, sh: usual },
    { kubernetes: newest, helm: "helm", jq: newJq, sh: other },
  ];
  return oldest === newest ? rows.slice(2) : rows;
}

const usage = "npm run test:compat -- [--kubernetes X.Y.Z,…] [--row N,…] [--files WORD,…]";

/** Versions, rows (counted from one) and words in names of test files; throws for what makes no sense. */
export function optionsOf(args, { oldest, newest }) {
  const options = { kubernetes: [oldest, newest], rows: [], files: [] };
  for (let index = 0; index < args.length; index += 2) {
    const [name, value] = [args[index], args[index + 1]];
    const values = (value ?? "").split(",").filter((each) => each !== "");
    if (!["--kubernetes", "--row", "--files"].includes(name))
      throw new Error(`unknown argument ${name}: ${usage}`);
    if (values.length === 0) throw new Error(`${name} needs a value: ${usage}`);
    if (name === "--kubernetes") options.kubernetes = versionsOf(values);
    if (name === "--row") options.rows = values.map(rowNumber);
    if (name === "--files") options.files = values;
  }
  return options;
}

function versionsOf(values) {
  const wrong = values.find((value) => !/^1\.\d+\.\d+$/.test(value));
  if (wrong) throw new Error(`--kubernetes ${wrong}: versions are written 1.30.14`);
  return values.toSorted(compareVersions);
}

function rowNumber(value) {
  if (!/^[1-4]$/.test(value)) throw new Error(`--row ${value}: there are rows 1 to 4`);
  return Number(value);
}

/** Orders `1.9.0` before `1.30.14`, `jq-1.6` before `jq-1.7.1`. */
export function compareVersions(a, b) {
  return semver.compare(semver.coerce(a) ?? "0.0.0", semver.coerce(b) ?? "0.0.0");
}
