/** Compares versions of charts. */

const BY_NUMBER = new Intl.Collator("en", { numeric: true });

/** By number, then a pre-release before its release. */
export function olderThan(version: string, other: string): boolean {
  const [[core, pre], [otherCore, otherPre]] = [split(version), split(other)];
  const byCore = BY_NUMBER.compare(core, otherCore);
  if (byCore !== 0) return byCore < 0;
  return otherPre === "" ? pre !== "" : pre !== "" && BY_NUMBER.compare(pre, otherPre) < 0;
}

function split(version: string): [core: string, pre: string] {
  const [plain = ""] = version.replace(/^v/, "").split("+");
  const at = plain.indexOf("-");
  return at < 0 ? [plain, ""] : [plain.slice(0, at), plain.slice(at + 1)];
}
