/** Reads the versions of some charts out of an `index.yaml` while it arrives: other charts are skipped. */

import { oneLine, parseJson, parseYaml, plainLine } from "../../lib/index.ts";
import { objectOf, objectsIn, type Json, type JsonObject } from "../../model/index.ts";

/** One version of a chart in the index of a repository. */
export interface ChartVersion {
  readonly version: string;
  /** Where the archive is, relative to the repository or absolute. */
  readonly url: string;
  /** `sha256:…` of the archive; undefined if the index has none. */
  readonly digest: string | undefined;
}

/** The versions of each requested chart, in the order of the index. */
export type ChartVersions = ReadonlyMap<string, readonly ChartVersion[]>;

/** Sizes in characters. */
const LIMITS = {
  index: 256 << 20,
  json: 16 << 20,
  line: 1 << 20,
  entry: 64 << 10,
  versions: 10_000,
} as const;

/** Keys of a version that count. */
const KEPT: ReadonlySet<string> = new Set(["version", "urls", "digest", "removed"]);
/** A key at the beginning of a line, and what follows its colon. */
const KEY = /^(?:"([^"\\]*)"|'([^']*)'|([^\s"'#&*!|>%@`:,[\]{}-][^\s:]*))\s*:(?:\s(.*))?$/;
/** What may follow the key of a chart whose versions are on the lines below. */
const NOTHING = /^\s*(?:#.*)?$/;
const EMPTY = /^\s*(?:\[\s*\]|\{\s*\}|null|~)\s*(?:#.*)?$/;

/**
 * Takes the text of an index in pieces, and then gives the versions. Needs block style, as helm and all known servers
 * write it, or JSON of at most 16 MiB.
 */
export class IndexScan {
  readonly #charts: ReadonlySet<string>;
  readonly #found = new Map<string, ChartVersion[]>();
  #length = 0;
  /** The line that is not complete yet; of JSON, the whole text. */
  #rest = "";
  #isJson: boolean | undefined;
  #isInEntries = false;
  #hasEntries = false;
  /** Indentation of names of charts. */
  #nameIndent: number | undefined;
  /** The chart of the lines that are read, if it was requested. */
  #chart: string | undefined;
  /** Indentation of the dashes before its versions, and of their keys. */
  #dashIndent: number | undefined;
  #keyIndent = 0;
  #isKept = false;
  /** Lines of the version that is read; undefined before the first one. */
  #entry: string[] | undefined;
  #entryLength = 0;

  constructor(charts: Iterable<string>) {
    this.#charts = new Set(charts);
  }

  /** Takes the next piece. Throws Error for what is no index, or too large. */
  add(text: string): void {
    this.#length += text.length;
    if (this.#length > LIMITS.index) throw new Error(`it is larger than ${LIMITS.index >> 20} MiB`);
    this.#rest += text;
    if (this.#isJson === undefined) {
      const start = /^\uFEFF?\s*(\S)/.exec(this.#rest)?.[1];
      if (start !== undefined) this.#isJson = start === "{";
    }
    if (this.#isJson === true) return this.#requireSize(LIMITS.json, "JSON");
    const lines = this.#rest.split("\n");
    this.#rest = lines.pop() ?? "";
    this.#requireSize(LIMITS.line, "one line");
    for (const line of lines) this.#line(line);
  }

  /** The versions, after the last piece. Throws Error. */
  end(): ChartVersions {
    if (this.#isJson === true) this.#readJson();
    else this.#line(this.#rest);
    this.#endChart();
    if (!this.#hasEntries) throw new Error("it has no entries");
    return this.#found;
  }

  #requireSize(limit: number, what: string): void {
    if (this.#rest.length > limit) throw new Error(`it has ${what} of more than ${limit} characters`);
  }

  #line(text: string): void {
    const line = text.trimEnd();
    const content = line.trimStart();
    if (content === "" || content.startsWith("#")) return;
    const indent = line.length - content.length;
    const isDash = isItem(content);
    if (indent === 0 && !isDash) this.#top(content);
    else if (this.#isInEntries) this.#inEntries(line, content, isDash);
  }

  #inEntries(line: string, content: string, isDash: boolean): void {
    const indent = line.length - content.length;
    this.#nameIndent ??= indent;
    if (indent <= this.#nameIndent && !isDash) return this.#name(content);
    if (this.#chart !== undefined) this.#ofChart(line, indent, isDash);
  }

  /** A line without indentation. */
  #top(content: string): void {
    this.#endChart();
    const [key, value] = splitKey(content.replace(/^\uFEFF/, ""));
    this.#isInEntries = key === "entries";
    if (!this.#isInEntries) return;
    this.#hasEntries = true;
    if (!NOTHING.test(value) && !EMPTY.test(value)) throw flow("entries");
  }

  /** The name of a chart. */
  #name(content: string): void {
    this.#endChart();
    const [name = "", value] = splitKey(content);
    if (!this.#charts.has(name)) return;
    if (EMPTY.test(value)) return;
    if (!NOTHING.test(value)) throw flow(name);
    this.#chart = name;
  }

  /** A line below the name of a chart. */
  #ofChart(line: string, indent: number, isDash: boolean): void {
    if (isDash) this.#dashIndent ??= indent;
    if (isDash && indent === this.#dashIndent) {
      this.#endEntry();
      this.#entry = [];
      const content = line.slice(indent + 1).trimStart();
      if (content === "") return void (this.#keyIndent = -1);
      this.#keyIndent = line.length - content.length;
      return this.#ofEntry(`${" ".repeat(this.#keyIndent)}${content}`, this.#keyIndent);
    }
    if (this.#keyIndent === -1) this.#keyIndent = indent;
    this.#ofEntry(line, indent);
  }

  /** A line of a version: its keys that count are kept, with the lines that belong to them. */
  #ofEntry(line: string, indent: number): void {
    const content = line.trimStart();
    if (indent === this.#keyIndent && !isItem(content)) this.#isKept = KEPT.has(splitKey(content)[0] ?? "");
    if (!this.#isKept) return;
    this.#entryLength += line.length;
    if (this.#entryLength > LIMITS.entry)
      throw new Error(`a version of ${this.#chart} has more than ${LIMITS.entry} characters`);
    this.#entry?.push(line);
  }

  #endEntry(): void {
    const [lines, chart] = [this.#entry, this.#chart];
    this.#entry = undefined;
    this.#entryLength = 0;
    this.#isKept = false;
    if (lines !== undefined && lines.length > 0 && chart !== undefined)
      this.#addVersion(chart, entryOf(chart, lines.join("\n")));
  }

  #endChart(): void {
    this.#endEntry();
    this.#chart = undefined;
    this.#dashIndent = undefined;
  }

  #addVersion(chart: string, entry: JsonObject): void {
    const version = versionOf(chart, entry);
    if (version === undefined) return;
    const versions = this.#found.get(chart) ?? [];
    this.#found.set(chart, versions);
    if (versions.length === LIMITS.versions)
      throw new Error(`${chart} has more than ${LIMITS.versions} versions`);
    versions.push(version);
  }

  #readJson(): void {
    const entries = objectOf(objectOf(parseJson(this.#rest.replace(/^\uFEFF/, "")))["entries"]);
    this.#hasEntries = true;
    for (const chart of this.#charts)
      for (const entry of objectsIn(Object.hasOwn(entries, chart) ? entries[chart] : []))
        this.#addVersion(chart, entry);
  }
}

/** The key of a line, and what follows its colon; no key for other lines. */
function splitKey(content: string): readonly [key: string | undefined, value: string] {
  const [, double, single, plain, value = ""] = KEY.exec(content) ?? [];
  return [double ?? single ?? plain, value];
}

/** The keys of a version that are kept. Throws Error. */
function entryOf(chart: string, text: string): JsonObject {
  try {
    return objectOf(parseYaml(text, "index.yaml").value);
  } catch (error) {
    throw new Error(`the entry of ${chart}: ${oneLine(error)}`, { cause: error });
  }
}

function flow(what: string): Error {
  return new Error(`${plainLine(what, 100)} is not in block style`);
}

/** Whether a line begins an item of a list. */
function isItem(content: string): boolean {
  return content === "-" || content.startsWith("- ");
}

/** A version that can be fetched; undefined for one that is removed, or has no archive. Throws Error for a wrong digest. */
function versionOf(chart: string, { version, urls, digest, removed }: JsonObject): ChartVersion | undefined {
  const [url] = Array.isArray(urls) ? urls : [];
  if (typeof version !== "string" || typeof url !== "string" || removed === true) return undefined;
  const found = digestIn(digest);
  if (found !== null) return { version, url, digest: found };
  throw new Error(`${chart} ${oneLine(version, 100)} has a digest that is no SHA-256`);
}

/** A digest of the index as `sha256:…`; undefined if there is none, null if it is wrong. */
function digestIn(value: Json | undefined): string | undefined | null {
  if (value === undefined || value === null || value === "") return undefined;
  const hex = typeof value === "string" ? HEX.exec(value)?.[1] : undefined;
  return hex === undefined ? null : `sha256:${hex.toLowerCase()}`;
}

const HEX = /^(?:sha256:)?([0-9a-fA-F]{64})$/;
