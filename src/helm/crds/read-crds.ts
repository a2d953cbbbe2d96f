/** Reads CustomResourceDefinitions from files, document by document (docs/reference/modules.md, "The chart"). */

import { statSync } from "node:fs";

import { OWN_CRDS } from "../../kube/index.ts";
import { decodeText, EncodingError, readRegularFile, yieldToEventLoop } from "../../base/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject, type Problem } from "../../base/model/index.ts";
import { encodingProblem } from "../../modules/index.ts";
import { parseManifestDocument, splitDocuments, type ObjectRef } from "../manifest/manifest.ts";
import { crdName, type CrdFile } from "./crd.ts";
import { withKnownFields } from "./known-fields.ts";

/** Most bytes of a file with definitions, which can have many of them. */
export const MAX_CRD_FILE_BYTES = 16 * 1024 * 1024;
/** Most characters of one document: the API server accepts no larger object, and a document blocks the event loop while it is parsed. */
const MAX_DOCUMENT_LENGTH = 3 * 1024 * 1024;

export interface CrdContent {
  readonly crds: readonly CrdFile[];
  /** One for each document that is no definition. Empty documents do not count. */
  readonly problems: readonly Problem[];
  /** For each file with fields that a definition does not have, their names. They are not in `crds`. */
  readonly dropped: ReadonlyMap<string, readonly string[]>;
}

/**
 * Finds a definition of the operator's own kinds among the objects of a chart, and returns it as a problem of `file`: a module
 * must not replace them. Undefined if the chart contains none.
 */
export function findOwnCrd(
  objects: readonly Pick<ObjectRef, "kind" | "name">[],
  file: string,
): Problem | undefined {
  const ownCrd = objects.find(
    ({ kind, name }) => kind === "CustomResourceDefinition" && OWN_CRDS.includes(name),
  );
  if (ownCrd === undefined) return undefined;
  const message = "is a definition of the operator itself, which no module may replace";
  const remedy = "remove it from the module: the operator applies its own definitions when it starts";
  return { file, key: `CustomResourceDefinition ${ownCrd.name}`, message, remedy };
}

/**
 * Reads the definitions of a module from its files. Definitions of the operator's own kinds become problems, because a module
 * must not replace them. Throws the file system's error.
 */
export async function readModuleCrds(files: readonly string[]): Promise<CrdContent> {
  const content = await readCrds(files);
  const kind = "CustomResourceDefinition";
  const refused = content.crds.flatMap(
    ({ file, crd }) => findOwnCrd([{ kind, name: crdName(crd) }], file) ?? [],
  );
  const crds = content.crds.filter(({ crd }) => !OWN_CRDS.includes(crdName(crd)));
  return { ...content, crds, problems: [...content.problems, ...refused] };
}

/** Reads all definitions from files. Fields that a definition does not have are left out and listed. Throws the file system's error. */
async function readCrds(files: readonly string[]): Promise<CrdContent> {
  const crds: CrdFile[] = [];
  const problems: Problem[] = [];
  const dropped = new Map<string, readonly string[]>();
  for (const file of files) {
    const unknown = new Set<string>();
    for (const text of readDocuments(file, problems)) {
      await yieldToEventLoop();
      const document = parseManifestDocument(text);
      if (document === null) continue;
      if (isCrd(document)) crds.push({ file, crd: withKnownFields(document, unknown) });
      else problems.push(buildNotCrdProblem(file, document));
    }
    if (unknown.size > 0) dropped.set(file, [...unknown].sort());
  }
  return { crds, problems, dropped };
}

/** The texts of the documents of a file, except those that are too large, which become problems. Throws the file system's error. */
function readDocuments(file: string, problems: Problem[]): string[] {
  return splitDocuments(readCrdFile(file, problems)).filter((text, index) => {
    const isTooLarge = text.length > MAX_DOCUMENT_LENGTH;
    if (isTooLarge) problems.push(buildLargeDocumentProblem(file, index + 1));
    return !isTooLarge;
  });
}

/** The text of a file; empty, with a problem, if it is too large or not UTF-8. Throws the file system's error. */
function readCrdFile(file: string, problems: Problem[]): string {
  const { size } = statSync(file);
  if (size > MAX_CRD_FILE_BYTES) {
    problems.push(buildTooLargeProblem(file, size));
    return "";
  }
  try {
    return decodeText(readRegularFile(file, MAX_CRD_FILE_BYTES));
  } catch (error) {
    if (!(error instanceof EncodingError)) throw error;
    problems.push(encodingProblem(file, error));
    return "";
  }
}

function buildTooLargeProblem(file: string, size: number): Problem {
  const message = `has ${size} bytes, but a file in crds/ has a limit of ${MAX_CRD_FILE_BYTES >> 20} MiB`;
  return { file, message, remedy: "split the file, or remove it" };
}

function buildLargeDocumentProblem(file: string, number: number): Problem {
  const limit = `${MAX_DOCUMENT_LENGTH >> 20} MiB`;
  const message = `is larger than ${limit}, which the API server refuses`;
  return { file, key: `document ${number}`, message, remedy: "shorten it, e.g. its descriptions" };
}

/** Whether a document is a named CustomResourceDefinition of the supported version. */
function isCrd(document: Json): document is JsonObject {
  if (!isJsonObject(document)) return false;
  const { apiVersion, kind } = document;
  return (
    apiVersion === "apiextensions.k8s.io/v1" &&
    kind === "CustomResourceDefinition" &&
    crdName(document) !== ""
  );
}

/** The problem of a document in a CRD file that is no CRD. It names version, kind and name where the document has them. */
function buildNotCrdProblem(file: string, document: Json): Problem {
  const { apiVersion, kind, metadata } = isJsonObject(document) ? document : {};
  const words = [apiVersion, kind, objectOf(metadata)["name"]].filter((each) => typeof each === "string");
  return {
    file,
    ...(words.length > 0 && { key: words.join(" ") }),
    message: "contains an object that is no CustomResourceDefinition of apiextensions.k8s.io/v1",
    remedy: "move it to templates/, or correct its apiVersion and kind",
  };
}
