// What `npm run test:compat` runs: a few rows, in which each version meets each other one of another tool.
import { parseArgs } from "node:util";
import semver from "semver";

/** In place of a version: the newest one after those that are supported, also before its release. */
export const NEXT = "next";

/**
 * Of Kubernetes and jq the oldest and the newest, both helms, and busybox in place of `sh` where it can be put there. Then
 * each other version of Kubernetes. Last, where there is one beside jq, gojq in its place. `{ kubernetes, helm, jq, sh }` each; with one jq or one shell alone some rows are alike in it.
 */
export function rowsOf({ kubernetes, jqs, shells }) {
  const [oldest, newest] = [kubernetes[0], kubernetes.at(-1)];
  const [gojq] = jqs.filter(isGojq);
  const plain = jqs.filter((jq) => !isGojq(jq));
  const [oldJq, newJq] = [plain[0] ?? gojq, plain.at(-1) ?? gojq];
  const [usual, other] = [shells[0], shells.at(-1)];
  const rows = [
    { kubernetes: oldest, helm: "helm", jq: oldJq, sh: usual },
    { kubernetes: oldest, helm: "helm3", jq: newJq, sh: other },
    { kubernetes: newest, helm: "helm3", jq: oldJq, sh: usual },
    { kubernetes: newest, helm: "helm", jq: newJq, sh: other },
  ];
  const between = kubernetes.slice(1, -1).map((version) => ({ ...rows[3], kubernetes: version, sh: usual }));
  const inPlaceOfJq =
    plain.length > 0 && gojq ? [{ kubernetes: newest, helm: "helm", jq: gojq, sh: usual }] : [];
  return [...(oldest === newest ? rows.slice(2) : rows), ...between, ...inPlaceOfJq];
}

const isGojq = ({ version }) => version.startsWith("gojq");

/** Versions, rows (counted from one) and words in names of test files; throws for what makes no sense. */
export function optionsOf(args, { oldest, previous, newest }) {
  const list = { type: "string", multiple: true, default: [] };
  const { values } = parseArgs({ args, options: { kubernetes: list, row: list, files: list } });
  const given = (name) => values[name].flatMap((value) => value.split(",")).filter((each) => each !== "");
  const kubernetes = given("kubernetes");
  return {
    kubernetes: kubernetes.length === 0 ? [oldest, previous, newest] : versionsOf(kubernetes),
    rows: given("row").map(rowNumber),
    files: given("files"),
  };
}

function versionsOf(values) {
  const wrong = values.find((value) => value !== NEXT && !/^1\.\d+\.\d+(?:-[a-z]+\.\d+)?$/.test(value));
  if (wrong)
    throw new Error(`--kubernetes ${wrong}: versions are written 1.30.14 or 1.38.0-beta.0, or it is next`);
  return values.toSorted(compareVersions);
}

/** The newest of the published versions, such as `v1.38.0-beta.0`, if it is of a later minor version than `newest`. */
export function findNext(published, newest) {
  const [last] = published.toSorted(semver.rcompare);
  const isLater = last !== undefined && semver.minor(last) > semver.minor(newest);
  return isLater ? semver.parse(last).version : undefined;
}

function rowNumber(value) {
  if (!/^[1-6]$/.test(value)) throw new Error(`--row ${value}: there are rows 1 to 6`);
  return Number(value);
}

/** Orders `1.9.0` before `1.30.14`, `jq-1.6` before `jq-1.7.1`. */
export function compareVersions(a, b) {
  return semver.compare(semver.coerce(a) ?? "0.0.0", semver.coerce(b) ?? "0.0.0");
}
