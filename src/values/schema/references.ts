/**
 * Bundles references of a schema to other files (`$ref: common.yaml#/definitions/port`): copies the part of the file to which a reference
 * leads, the *fragment*, into `definitions` of the schema, and lets the reference lead there.
 */

import { dirname, resolve } from "node:path";

import { digest, parsePointer } from "../../base/index.ts";
import { isContainer, isJsonObject, objectOf, ProblemError, valueAt } from "../../base/model/index.ts";
import type { Json, JsonObject, SchemaReference } from "../../base/model/index.ts";
import { parseMap } from "../static-values.ts";
import { decodeFragment, mapSchemas } from "./schema-tree.ts";

const MAX_FRAGMENTS = 200;

/** Path and fragment of a `$ref` to another file, relative to `file`; undefined for `#/…`, URLs, and what is no reference. */
function parseFileReference(
  $ref: unknown,
  file: string,
): { readonly path: string; readonly fragment: string } | undefined {
  if (typeof $ref !== "string" || $ref.startsWith("#") || /^[a-z][a-z\d+.-]*:/i.test($ref)) return undefined;
  const [path = "", fragment = ""] = $ref.split("#", 2);
  return { path: resolve(dirname(file), path), fragment };
}

/** Absolute paths of the files that a schema refers to; none if the text is invalid. */
export function referencedFiles(text: string, file: string): string[] {
  try {
    const paths = new Set<string>();
    collectPaths(parseMap(text, file).value, file, paths);
    return [...paths];
  } catch (error) {
    if (error instanceof ProblemError) return [];
    throw error;
  }
}

/** Adds the paths of the files to which a value refers to `paths`. Searches the whole value: a fragment may be anywhere in a file. */
function collectPaths(value: Json, file: string, paths: Set<string>): void {
  if (!isContainer(value)) return;
  for (const [key, member] of Object.entries(value)) {
    const target = key === "$ref" ? parseFileReference(member, file) : undefined;
    if (target !== undefined) paths.add(target.path);
    collectPaths(member ?? null, file, paths);
  }
}

/** Copies the fragments of other files that a schema needs into its definitions, each once: fragments may refer to each other. */
export class ReferenceBundle {
  readonly #root: JsonObject;
  /** The file of the root schema. */
  readonly #file: string;
  /** The other files by their path, and the parsed ones. */
  readonly #texts: ReadonlyMap<string, SchemaReference>;
  readonly #documents = new Map<string, JsonObject>();
  /** Names of definitions by path and fragment. */
  readonly #names = new Map<string, string>();
  readonly #definitions: Record<string, JsonObject> = {};

  /** `references` are the files, as they were read, to which the schema `root` of `file` refers. */
  constructor(root: JsonObject, file: string, references: readonly SchemaReference[]) {
    this.#root = root;
    this.#file = file;
    this.#texts = new Map(references.map((each) => [each.file, each]));
  }

  /** The root schema with the fragments of other files as definitions. Throws ProblemError. */
  bundleRoot(): JsonObject {
    const root = this.#bundleSchema(this.#root, this.#file);
    if (this.#names.size === 0) return root;
    return { ...root, definitions: { ...objectOf(root["definitions"]), ...this.#definitions } };
  }

  /** `schema` of `file`, with each reference to another file than the root's (also `#/…` within that file) replaced by one to a definition. */
  #bundleSchema(schema: JsonObject, file: string): JsonObject {
    return mapSchemas(schema, (each, pointer) => {
      const target = parseFileReference(qualifyReference(each["$ref"], file, this.#file), file);
      if (target === undefined) return each;
      return { ...each, $ref: `#/definitions/${this.#defineFragment(target, pointer)}` };
    });
  }

  /** Makes the fragment of another file a definition, once, and returns its name. Problems name `pointer`, where the reference is. */
  #defineFragment({ path, fragment }: { path: string; fragment: string }, pointer: string): string {
    const id = `${path}#${fragment}`;
    const existingName = this.#names.get(id);
    if (existingName !== undefined) return existingName;
    if (this.#names.size >= MAX_FRAGMENTS)
      throw this.#createProblem(pointer, `more than ${MAX_FRAGMENTS} references to other files`);
    // Use the same name in each schema of a module, since one may extend the other.
    const name = `file-${digest(id).slice(0, 16)}`;
    // Before the fragment itself is bundled, which may refer to itself.
    this.#names.set(id, name);
    const target = valueAt(this.#parseReferencedFile(path, pointer), parsePointer(decodeFragment(fragment)));
    if (!isJsonObject(target)) throw this.#createProblem(pointer, `$ref points to nothing in ${path}`);
    this.#definitions[name] = this.#bundleSchema(target, path);
    return name;
  }

  /** The parsed document of a referenced file. Throws ProblemError at the reference, `pointer`. */
  #parseReferencedFile(path: string, pointer: string): JsonObject {
    if (path === this.#file) return this.#root;
    const reference = this.#texts.get(path);
    if (reference?.text === undefined)
      throw this.#createProblem(pointer, `$ref to ${path}: ${reference?.problem ?? "the file was not read"}`);
    const document = this.#documents.get(path) ?? parseMap(reference.text, path).value;
    this.#documents.set(path, document);
    return document;
  }

  /** The error for the reference at `pointer`. */
  #createProblem(pointer: string, message: string): ProblemError {
    const remedy = "refer to a file in the directory of the module";
    return new ProblemError({ file: this.#file, key: pointer || "/", message, remedy });
  }
}

/** Adds the name of its file to a reference within another file than the root's: there `#/x` means that file. */
function qualifyReference($ref: unknown, file: string, root: string): unknown {
  return typeof $ref === "string" && $ref.startsWith("#") && file !== root ? `${file}${$ref}` : $ref;
}
