/** Compares a chart with what the index of its repository says of it. */

import { readFileSync } from "node:fs";

import { oneLine, parseYaml } from "../../lib/index.ts";
import { ProblemError, objectOf, objectsIn, textOf } from "../../model/index.ts";
import type { JsonObject } from "../../model/index.ts";

/** The index of a chart repository: helm finds archives by it, and does not compare them with it. */
export interface RepositoryIndex {
  readonly repo: string;
  readonly entries: JsonObject;
}

/** Reads the index that helm keeps in `file`. Throws ProblemError. */
export function readIndex(file: string, repo: string): RepositoryIndex {
  try {
    return {
      repo,
      entries: objectOf(objectOf(parseYaml(readFileSync(file, "utf8"), file).value)["entries"]),
    };
  } catch (error) {
    const message = `its index cannot be read: ${oneLine(error)}`;
    throw new ProblemError([{ file: repo, message, remedy: "ask who runs the repository" }]);
  }
}

interface Chart {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
}

/**
 * Throws ProblemError for an archive that is not the one that the index names. An index may leave digests out: then
 * there is nothing to compare.
 */
export function mustBeListed({ repo, entries }: RepositoryIndex, { name, version, digest }: Chart): void {
  const listed = objectsIn(entries[name] ?? []);
  const sums = listed.filter((entry) => entry["version"] === version).map((entry) => textOf(entry["digest"]));
  const refuse = (what: string): never => {
    const message = `the archive that it gave ${what}`;
    const remedy = "it may be half published: try again later, else ask who runs the repository";
    throw new ProblemError([{ file: repo, message, remedy }]);
  };
  if (sums.length === 0) refuse(`says that it is ${name} ${version}, which its index does not name`);
  const [sum] = sums.filter((each) => each !== undefined && each !== "");
  if (sum !== undefined && sum.replace(/^sha256:/, "") !== digest.replace(/^sha256:/, ""))
    refuse(
      `of ${name} ${version} is not the one that its index names: ${digest} instead of sha256:${sum.replace(/^sha256:/, "")}`,
    );
}
