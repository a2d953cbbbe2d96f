/**
 * The read-only web page: access control, files, stream and data (docs/guides/web-page.md). The page follows the state by a stream of
 * server-sent events, and requests details when the user opens them.
 */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { oneLine, type Clock, type KnownSecrets } from "../../base/index.ts";
import { readYamlMap } from "../../helm/index.ts";
import { member, objectOf, type Json, type JsonObject, type Module } from "../../base/model/index.ts";
import { buildGraph } from "../../engine/plan/index.ts";
import type { ModuleView } from "../../engine/state/index.ts";
import { displayValues, type Projection, type StatusValues } from "../../report/index.ts";
import type { RunRing } from "../../base/trace/index.ts";
import { ViewModel, buildPageState } from "./view-model.ts";
import {
  buildChartValues,
  buildModuleDetail,
  isEmptySection,
  buildSectionValues,
  findRunDetail,
  listRunRows,
} from "./detail.ts";
import { findRefusalReason, type RequestOrigin } from "./request-origin.ts";
import type { StreamSink } from "./streams.ts";
import type { GraphNode, OperatorRow } from "./wire.ts";

/** Where the page gets its data. */
export interface PageSources {
  readonly clock: Clock;
  readonly secrets: KnownSecrets;
  readonly about: Pick<OperatorRow, "version" | "name" | "namespace">;
  /** Directory of the page's files; by default beside the program. */
  readonly dir?: string;
  readonly project: () => Projection;
  /** `--status-values`: the page hides the values that statuses hide. */
  readonly statusValues: StatusValues;
  /** The layer that set each leaf of a section, by JSON pointer. */
  readonly originsOf: (section: string) => JsonObject;
  readonly runs: Pick<RunRing, "getRun" | "listRuns">;
  /** What a run would change. `displayed` redacts an object. */
  readonly diff: (module: Module, displayed: (object: JsonObject) => Json) => Promise<string>;
}

/** A request for a path below `/ui`. */
export interface PageRequest extends RequestOrigin {
  readonly path: string;
  readonly query: URLSearchParams;
}

/** A body, or a stream of events. */
export type PageResponse =
  | {
      readonly status: number;
      readonly body: string;
      readonly type?: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  | { readonly stream: (sink: StreamSink) => void; readonly headers: Readonly<Record<string, string>> };

/** The browser loads nothing from other sites, and other sites cannot embed the page. */
export const SECURITY_HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join("; "),
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

/** Whether a path belongs to the page, its files and its data. */
export function isPagePath(path: string): boolean {
  return path === "/ui" || path.startsWith("/ui/");
}

/** Whether a path is a static file of the page, which contains nothing about the operator. */
export function isPageFile(path: string): boolean {
  return path === "/ui" || PAGE_FILES.has(path);
}

/** The server side of the page. It answers requests; its callers serve them on the HTTP port and the debug socket. */
export class Page {
  readonly #sources: PageSources;
  readonly #viewModel: ViewModel;
  /** The difference that is being computed: only one at a time, because that calls helm and the API server. */
  #currentDiff: { readonly moduleName: string; readonly text: Promise<string> } | undefined;

  /** `sources.project` reads the state of the moment, from which the tables of the page are built. */
  constructor(sources: PageSources) {
    this.#sources = sources;
    const { clock, secrets, project, about } = sources;
    this.#viewModel = new ViewModel({
      clock,
      read: () => buildPageState(project(), clock.now(), about),
      redact: (value) => secrets.redactDeep(value),
    });
  }

  /** The number of open pages. */
  get viewers(): number {
    return this.#viewModel.viewers;
  }

  /** Call it when something may have changed: schedules a refresh of the open pages. */
  notifyChange(): void {
    this.#viewModel.notifyChange();
  }

  close(): void {
    this.#viewModel.close();
  }

  /** Answers a request over TCP. Refuses a request that another site may have made a browser send. */
  async answerGuarded(request: PageRequest): Promise<PageResponse> {
    const reason = findRefusalReason(request);
    return reason === undefined ? this.answer(request) : errorResponse(403, reason);
  }

  /** Answers a request from a trusted caller, such as the debug socket: without the checks of `answerGuarded`. */
  async answer({ path, query }: PageRequest): Promise<PageResponse> {
    if (path === "/ui")
      return { ...errorResponse(308, "see /ui/"), headers: { ...SECURITY_HEADERS, location: "/ui/" } };
    if (path === "/ui/events") return this.#openStream();
    if (PAGE_FILES.has(path)) return this.#answerFile(path);
    if (path === "/ui/graph") return jsonResponse(this.#buildGraph());
    if (path === "/ui/runs") {
      const { secrets, runs } = this.#sources;
      return jsonResponse(secrets.redactDeep(listRunRows(runs, query.get("name") ?? undefined)));
    }
    if (path === "/ui/run") return this.#answerRun(query.get("id") ?? "");
    return this.#answerModulePart(path.slice("/ui/".length), query.get("name") ?? "");
  }

  /** Answers with a static file of the page. */
  async #answerFile(path: string): Promise<PageResponse> {
    const file = await readPageFile(path, this.#sources.dir);
    if (file === undefined) return errorResponse(404, "the page is not built. Run npm run build");
    return { status: 200, ...file, headers: SECURITY_HEADERS };
  }

  /** Answers with a stream of server-sent events, unless too many pages are open. */
  #openStream(): PageResponse {
    if (!this.#viewModel.hasCapacity)
      return errorResponse(
        503,
        "the operator already serves the maximum number of pages. Close another page, and try again",
      );
    const headers = { ...SECURITY_HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" };
    return { headers, stream: (sink) => this.#viewModel.addViewer(sink) };
  }

  /** Answers with a part of a module: details, values or the difference that a run would make. */
  async #answerModulePart(part: string, name: string): Promise<PageResponse> {
    if (part !== "module" && part !== "values" && part !== "diff") return errorResponse(404, "not found");
    const projection = this.#sources.project();
    const module = projection.explanation.view.modules.get(name);
    if (module === undefined) return errorResponse(404, `module "${name}" does not exist`);
    if (part === "module") {
      const detail = buildModuleDetail(module, projection);
      return jsonResponse(this.#sources.secrets.redactDeep(detail));
    }
    return part === "values" ? jsonResponse(this.#readValues(module)) : this.#answerDiff(module.module);
  }

  /** The values of a module by leaf. If its section is empty, those of its chart's values.yaml. Hidden as `statusValues` says. */
  #readValues(module: ModuleView): unknown {
    const { secrets, statusValues, originsOf } = this.#sources;
    const { chart, chartDir, valuesKey } = module.module;
    const redaction = { secretPaths: module.secretPaths, secrets };
    const values = objectOf(module.values());
    // The chart of kind `root` gets the section as its root values, so its own values.yaml contains the defaults.
    const usesChartValues = chart === "root" && isEmptySection(member(values, valuesKey));
    const chartValues = usesChartValues ? readYamlMap(join(chartDir, "values.yaml")) : undefined;
    if (chartValues === undefined) {
      const displayed = displayValues(values, statusValues, redaction);
      return secrets.redactDeep(buildSectionValues(displayed, valuesKey, originsOf(valuesKey)));
    }
    const displayed = displayValues({ ...values, [valuesKey]: chartValues }, statusValues, redaction);
    return secrets.redactDeep(buildChartValues(displayed, valuesKey));
  }

  /** Answers with what a run would change. Requests for the same module share one computation; others are refused meanwhile. */
  async #answerDiff(module: Module): Promise<PageResponse> {
    const busyWith = this.#currentDiff?.moduleName ?? module.name;
    if (busyWith !== module.name)
      return errorResponse(
        503,
        `the operator is computing the difference of module ${busyWith}. Try again later`,
      );
    const { secrets, diff } = this.#sources;
    const redactSecrets = (object: JsonObject): Json => redactObject(object, secrets);
    const shared = (this.#currentDiff ??= { moduleName: module.name, text: diff(module, redactSecrets) });
    try {
      return { status: 200, body: secrets.redact(await shared.text), headers: SECURITY_HEADERS };
    } catch (error) {
      return errorResponse(500, secrets.redact(oneLine(error)));
    } finally {
      // Another request may have replaced it by a newer computation.
      if (this.#currentDiff === shared) this.#currentDiff = undefined;
    }
  }

  /** Answers with the log lines of a run. */
  #answerRun(id: string): PageResponse {
    const { secrets, runs } = this.#sources;
    const detail = findRunDetail(runs, id);
    return detail === undefined
      ? errorResponse(404, "the operator has discarded this run")
      : jsonResponse(secrets.redactDeep(detail));
  }

  /** Which modules each module requires, whether the requirement is met (`met`), and after which it runs, for the page's graph. */
  #buildGraph(): readonly GraphNode[] {
    const stateOf = (): string => ""; // The page has the states already.
    return buildGraph(this.#sources.project().explanation.view, stateOf).map(
      ({ module, requires, after }) => ({
        name: module,
        requires: requires.flatMap(({ of, name, unmet }) =>
          of === "module" ? [{ name, met: unmet === undefined }] : [],
        ),
        after,
      }),
    );
  }
}

/** A copy of an object without secrets: known secrets are replaced everywhere, and all data of a Secret. */
function redactObject(object: JsonObject, secrets: KnownSecrets): Json {
  const paths = object["kind"] === "Secret" ? ["/data/*", "/stringData/*"] : [];
  return secrets.redactValues(object, new Set(paths));
}

function jsonResponse(value: unknown): PageResponse {
  return { status: 200, body: JSON.stringify(value), type: "application/json", headers: SECURITY_HEADERS };
}

function errorResponse(status: number, message: string): PageResponse & { status: number } {
  return { status, body: `${message}\n`, headers: SECURITY_HEADERS };
}

const PAGE_FILES: ReadonlyMap<string, readonly [name: string, type: string]> = new Map([
  ["/ui/", ["index.html", "text/html; charset=utf-8"]],
  ["/ui/page.js", ["page.js", "text/javascript; charset=utf-8"]],
  ["/ui/page.css", ["page.css", "text/css; charset=utf-8"]],
]);

/** Reads the static file for a path of the page; undefined if the page was not built. */
async function readPageFile(
  path: string,
  dir = findPageDir(),
): Promise<{ type: string; body: string } | undefined> {
  const [name = "", type = ""] = PAGE_FILES.get(path) ?? [];
  const file = `${dir ?? ""}/${name}`;
  return existsSync(file) ? { type, body: await readFile(file, "utf8") } : undefined;
}

/** The directory with the built page: beside the bundled program, or the output of the last build. Undefined without one. */
function findPageDir(): string | undefined {
  return ["./page", "../../../dist/page"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(`${path}/page.js`));
}
