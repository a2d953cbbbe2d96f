/**
 * Reads the versions of some charts out of an `index.yaml` while it arrives. Other charts are skipped without parsing: an
 * index can have hundreds of megabytes, and parsing it whole would take several times its size in memory.
 */

import { JsonMeter, attempt, oneLine, parseJson, parseYaml, plainLine } from "../../../base/index.ts";
import { objectOf, objectsIn, type Json, type JsonObject } from "../../../base/model/index.ts";

/** One version of a chart in the index of a repository. */
export interface ChartVersion {
  readonly version: string;
  /** URL of the archive, relative to the repository or absolute. */
  readonly url: string;
  /** `sha256:…` of the archive; undefined if the index has none. */
  readonly digest: string | undefined;
}

/** The versions of each requested chart, in the order of the index. */
export type ChartVersions = ReadonlyMap<string, readonly ChartVersion[]>;

/**
 * Limits of sizes in characters, and of the number of versions of a chart. `entry` is one version. `flow`: YAML in another
 * form than block style is parsed whole, which blocks all other work. `values`: of JSON, as JsonMeter counts them.
 */
const LIMITS = {
  index: 256 << 20,
  json: 16 << 20,
  values: 2_000_000,
  flow: 128 << 10,
  line: 1 << 20,
  entry: 64 << 10,
  versions: 10_000,
} as const;

/** The keys of a version that this program uses; the lines of all other keys are dropped. */
const USED_KEYS: ReadonlySet<string> = new Set(["version", "urls", "digest", "removed"]);
/** A line that begins with a key, quoted or not; captures the key and the text after its colon. */
const KEY_LINE = /^(?:"([^"\\]*)"|'([^']*)'|([^\s"'#&*!|>%@`:,[\]{}-][^\s:]*))\s*:(?:\s(.*))?$/;
/** A line without indentation that begins a whole index in flow style. */
const FLOW_DOCUMENT = /^(?:---\s+)?\{/;
/** The text after the colon if the value is on the lines below. */
const EMPTY_OR_COMMENT = /^\s*(?:#.*)?$/;
/** The text after the colon if the value is empty. */
const EMPTY_VALUE = /^\s*(?:\[\s*\]|\{\s*\}|null|~)\s*(?:#.*)?$/;

/**
 * Scans an index line by line: `addText` takes its text in pieces, and `finish` returns the versions. Supports YAML
 * in block style, as helm and all known servers write it, JSON of at most 16 MiB, and all other YAML of at most 128 KiB. Below the key `entries` come names of
 * charts, below each name a list of versions (`- version: 1.2.3`), and below each dash the keys of one version.
 */
export class IndexScanner {
  readonly #requestedCharts: ReadonlySet<string>;
  readonly #versionsByChart = new Map<string, ChartVersion[]>();
  #totalLength = 0;
  /** The beginning of a line whose end has not arrived; of JSON, the whole text. */
  #pendingText = "";
  #isJson: boolean | undefined;
  /** The whole text, as far as `LIMITS.flow` allows. */
  #wholeText = "";
  /** What is not in block style, so that the whole text is parsed at the end. */
  #flowPart: string | undefined;
  /** Whether a line without indentation has begun a key. Where none has, the whole index is indented. */
  #hasTopLevelKey = false;
  /** Whether the lines belong to the top-level key `entries`, which contains the charts. */
  #isInEntries = false;
  #hasEntries = false;
  /** Indentation of the names of charts. */
  #nameIndent: number | undefined;
  /** The chart whose lines are being read; undefined if it was not requested. */
  #currentChart: string | undefined;
  /** Indentation of the dashes that begin versions of the current chart; undefined before the first one. */
  #dashIndent: number | undefined;
  /** Indentation of the keys of the current version; undefined after a dash alone on its line, -1 if it is in flow style. */
  #keyIndent: number | undefined = 0;
  /** Whether the last key of the current version is one of `USED_KEYS`, so that its lines are kept; undefined before the first key. */
  #isUsedKey: boolean | undefined;
  /** The kept lines of the current version; undefined before the first version of a chart. */
  #versionLines: string[] | undefined;
  #versionLength = 0;

  constructor(charts: Iterable<string>) {
    this.#requestedCharts = new Set(charts);
  }

  /** Scans the next piece of the text. Throws Error if a limit is exceeded. */
  addText(text: string): void {
    this.#totalLength += text.length;
    if (this.#totalLength > LIMITS.index) throw new Error(`it is larger than ${LIMITS.index >> 20} MiB`);
    if (this.#totalLength <= LIMITS.flow) this.#wholeText += text;
    if (this.#flowPart !== undefined) return this.#parseWhole(this.#flowPart);
    this.#pendingText += text;
    // JSON is collected, and parsed at the end.
    this.#isJson ??= startsWithBrace(this.#pendingText);
    if (this.#isJson === true) return this.#requireSize(LIMITS.json, "JSON");
    const lines = this.#pendingText.split("\n");
    this.#pendingText = lines.pop() ?? "";
    this.#requireSize(LIMITS.line, "one line");
    for (const line of lines) if (this.#flowPart === undefined) this.#handleLine(line);
  }

  /** Returns the versions after the last piece. Throws Error if the text was no index. */
  finish(): ChartVersions {
    if (this.#isJson !== true && this.#flowPart === undefined) {
      this.#handleLine(this.#pendingText);
      this.#finishChart();
    }
    if (this.#isJson === true) this.#scanValue(this.#parseJson());
    else if (this.#flowPart !== undefined) this.#scanValue(parseYaml(this.#wholeText, "index.yaml").value);
    if (!this.#hasEntries) throw new Error("it has no entries");
    return this.#versionsByChart;
  }

  /** Throws Error if more text is pending than `limit`; `what` names the text in the message. */
  #requireSize(limit: number, what: string): void {
    if (this.#pendingText.length > limit) throw new Error(`it has ${what} of more than ${limit} characters`);
  }

  /** Leaves the lines, because `part` is not in block style: `finish` parses the whole text. Throws Error if that is too large. */
  #parseWhole(part: string): void {
    this.#flowPart = part;
    if (this.#totalLength > LIMITS.flow)
      throw new Error(
        `${plainLine(part, 100)} is not in block style, and the index has more than ${LIMITS.flow} characters`,
      );
  }

  /**
   * Handles a complete line. A line without indentation begins a top-level key, unless it begins a list item: YAML
   * allows the dashes of a list at the indentation of its key.
   */
  #handleLine(text: string): void {
    const line = text.trimEnd();
    const content = line.trimStart();
    if (content === "" || content.startsWith("#")) return;
    const indent = line.length - content.length;
    const isDash = isListItem(content);
    if (indent === 0 && !isDash) this.#handleTopLevelKey(content);
    else if (!this.#hasTopLevelKey) this.#parseWhole(content);
    else if (this.#isInEntries) this.#handleLineOfEntries(line, content, isDash);
  }

  /** Handles a line below `entries`: the name of a chart, or a line that belongs to the last named chart. */
  #handleLineOfEntries(line: string, content: string, isDash: boolean): void {
    const indent = line.length - content.length;
    this.#nameIndent ??= indent;
    if (indent <= this.#nameIndent && !isDash) return this.#beginChart(content);
    if (this.#currentChart !== undefined) this.#handleLineOfChart(line, indent, isDash);
  }

  /**
   * Handles a line without indentation: ends the chart before it, and records whether `entries` begins. If the value of
   * `entries` is not on the lines below, the index is parsed whole.
   */
  #handleTopLevelKey(content: string): void {
    this.#finishChart();
    if (FLOW_DOCUMENT.test(content)) return this.#parseWhole("it");
    const [key, value] = splitKey(content);
    this.#hasTopLevelKey ||= key !== undefined;
    this.#isInEntries = key === "entries";
    if (!this.#isInEntries) return;
    this.#hasEntries = true;
    if (!EMPTY_OR_COMMENT.test(value) && !EMPTY_VALUE.test(value)) this.#parseWhole("entries");
  }

  /**
   * Handles the line with the name of a chart. Lines of charts that were not requested, or that have no versions, are
   * skipped. If the versions are not on the lines below, the index is parsed whole.
   */
  #beginChart(content: string): void {
    this.#finishChart();
    if (content.startsWith("{")) return this.#parseWhole("entries");
    const [name = "", value] = splitKey(content);
    if (!this.#requestedCharts.has(name)) return;
    if (EMPTY_VALUE.test(value)) return;
    if (!EMPTY_OR_COMMENT.test(value)) return this.#parseWhole(name);
    this.#currentChart = name;
  }

  /**
   * Handles a line below the name of a chart: a dash at the indentation of the first dash begins a version. The first key of
   * the version may stand after the dash: then the line is handled as if spaces stood for the dash.
   */
  #handleLineOfChart(line: string, indent: number, isDash: boolean): void {
    if (isDash) this.#dashIndent ??= indent;
    else if (this.#dashIndent === undefined) return this.#parseWhole(this.#currentChart ?? "");
    if (isDash && indent === this.#dashIndent) {
      this.#finishVersion();
      this.#versionLines = [];
      const content = line.slice(indent + 1).trimStart();
      if (content === "") {
        // The next line has the first key.
        this.#keyIndent = undefined;
        return;
      }
      this.#keyIndent = line.length - content.length;
      return this.#handleLineOfVersion(`${" ".repeat(this.#keyIndent)}${content}`, this.#keyIndent);
    }
    this.#keyIndent ??= indent;
    this.#handleLineOfVersion(line, indent);
  }

  /**
   * Handles a line of a version. Keeps it only if it belongs to a key that this program uses, such as `urls`: the other keys
   * can be long. A line that is indented deeper than keys, and a list item, belong to the last key. A version in flow style
   * (`{version: 1.2.3}`) is kept whole.
   */
  #handleLineOfVersion(line: string, indent: number): void {
    const content = line.trimStart();
    if (indent === this.#keyIndent && !isListItem(content)) this.#beginKey(content);
    if (this.#isUsedKey !== true) return;
    this.#versionLength += line.length;
    if (this.#versionLength > LIMITS.entry)
      throw new Error(`a version of ${this.#currentChart} has more than ${LIMITS.entry} characters`);
    this.#versionLines?.push(line);
  }

  /** Handles the beginning of a line with a key, or of a version in flow style. A version of another form is only read if all is parsed. */
  #beginKey(content: string): void {
    const [key] = splitKey(content);
    if (this.#isUsedKey === undefined && content.startsWith("{")) {
      this.#keyIndent = -1;
      this.#isUsedKey = true;
    } else if (this.#isUsedKey === undefined && key === undefined) this.#parseWhole(this.#currentChart ?? "");
    else this.#isUsedKey = USED_KEYS.has(key ?? "");
  }

  /** Parses the kept lines of the current version and adds the version to its chart. */
  #finishVersion(): void {
    const [lines, chart] = [this.#versionLines, this.#currentChart];
    this.#versionLines = undefined;
    this.#versionLength = 0;
    this.#isUsedKey = undefined;
    if (lines !== undefined && lines.length > 0 && chart !== undefined)
      this.#addVersion(chart, parseVersionYaml(chart, lines.join("\n")));
  }

  /** Ends the current version and the current chart. */
  #finishChart(): void {
    this.#finishVersion();
    this.#currentChart = undefined;
    this.#dashIndent = undefined;
  }

  /** Adds a version to its chart, unless the version cannot be fetched. Throws Error if the chart has too many. */
  #addVersion(chart: string, entry: JsonObject): void {
    const version = toChartVersion(chart, entry);
    if (version === undefined) return;
    const versions = this.#versionsByChart.get(chart) ?? [];
    this.#versionsByChart.set(chart, versions);
    if (versions.length === LIMITS.versions)
      throw new Error(`${chart} has more than ${LIMITS.versions} versions`);
    versions.push(version);
  }

  /** Parses an index that begins with a brace: JSON, or YAML in flow style. Throws the error of JSON if it is neither. */
  #parseJson(): Json {
    const meter = new JsonMeter();
    meter.add(Buffer.from(this.#pendingText));
    if (meter.values > LIMITS.values) throw new Error(`it has more than ${LIMITS.values} values`);
    try {
      return parseJson(this.#pendingText);
    } catch (error) {
      const isSmall = this.#totalLength <= LIMITS.flow;
      const yaml = isSmall ? attempt(() => parseYaml(this.#wholeText, "index.yaml")) : undefined;
      if (yaml === undefined) throw error;
      return yaml.value;
    }
  }

  /** Reads the requested charts out of an index that was parsed whole. */
  #scanValue(index: Json): void {
    const { entries } = objectOf(index);
    this.#hasEntries = entries !== undefined;
    this.#versionsByChart.clear();
    const charts = objectOf(entries);
    for (const chart of this.#requestedCharts)
      for (const entry of objectsIn(Object.hasOwn(charts, chart) ? charts[chart] : []))
        this.#addVersion(chart, entry);
  }
}

/** Whether the first character that is no space is a brace; undefined if there is none yet. */
function startsWithBrace(text: string): boolean | undefined {
  const [, start] = /^\s*(\S)/.exec(text) ?? [];
  return start === undefined ? undefined : start === "{";
}

/** Splits a line at the colon after its key. The key is undefined if the line has none. */
function splitKey(content: string): readonly [key: string | undefined, value: string] {
  const [, doubleQuoted, singleQuoted, unquoted, value = ""] = KEY_LINE.exec(content) ?? [];
  return [doubleQuoted ?? singleQuoted ?? unquoted, value];
}

/** Parses the kept lines of a version as YAML. Throws Error that names the chart. */
function parseVersionYaml(chart: string, text: string): JsonObject {
  try {
    return objectOf(parseYaml(text, "index.yaml").value);
  } catch (error) {
    throw new Error(`the entry of ${chart}: ${oneLine(error)}`, { cause: error });
  }
}

/** Whether a line begins an item of a YAML list. */
function isListItem(content: string): boolean {
  return content === "-" || content.startsWith("- ");
}

/** Checks an entry of the index. Undefined: the version is marked as removed or has no archive. Throws Error for an invalid digest. */
function toChartVersion(
  chart: string,
  { version, urls, digest, removed }: JsonObject,
): ChartVersion | undefined {
  const [url] = Array.isArray(urls) ? urls : [];
  if (typeof version !== "string" || typeof url !== "string" || removed === true) return undefined;
  const sha256 = parseDigest(digest);
  if (sha256 !== null) return { version, url, digest: sha256 };
  throw new Error(`${chart} ${oneLine(version, 100)} has a digest that is no SHA-256`);
}

/** Parses the digest of an entry into the form `sha256:…`; undefined if there is none, null if it is invalid. */
function parseDigest(value: Json | undefined): string | undefined | null {
  if (value === undefined || value === null || value === "") return undefined;
  const hex = typeof value === "string" ? SHA256_HEX.exec(value)?.[1] : undefined;
  return hex === undefined ? null : `sha256:${hex.toLowerCase()}`;
}

const SHA256_HEX = /^(?:sha256:)?([0-9a-fA-F]{64})$/;
