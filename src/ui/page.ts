/** The read-only web page: access control, files, stream and data (docs/guides/web-page.md). */

import { isIP } from "node:net";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { oneLine, type Clock, type KnownSecrets } from "../lib/index.ts";
import { readMap } from "../helm/index.ts";
import { member, objectOf, type Json, type JsonObject, type Module } from "../model/index.ts";
import { graphOf, type StateSnapshot } from "../plan/index.ts";
import type { ModuleView } from "../state/index.ts";
import { displayValues, type ModuleStatus, type StatusValues } from "../status/index.ts";
import type { RunRing } from "../trace/index.ts";
import { ViewModel, pageStateOf } from "./view-model.ts";
import { chartLeaves, detailOf, isEmpty, sectionLeaves, runDetail, runRows } from "./detail.ts";
import type { StreamSink } from "./streams.ts";
import type { GraphNode, OperatorRow } from "./wire.ts";

/** Where the page gets its data. */
export interface PageSources {
  readonly clock: Clock;
  readonly secrets: KnownSecrets;
  readonly about: Pick<OperatorRow, "version" | "name" | "namespace">;
  /** Directory of the page's files; by default beside the program. */
  readonly dir?: string;
  readonly snapshot: () => StateSnapshot;
  /** `--status-values`: the page hides the values that statuses hide. */
  readonly statusValues: StatusValues;
  readonly statusOf: (module: string) => ModuleStatus | undefined;
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
export const HEADERS = {
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

export function isPagePath(path: string): boolean {
  return path === "/ui" || path.startsWith("/ui/");
}

/** Whether a path is a static file of the page, which contains nothing about the operator. */
export function isPageFile(path: string): boolean {
  return path === "/ui" || FILES.has(path);
}

export class Page {
  readonly #sources: PageSources;
  readonly #viewModel: ViewModel;
  /** Only one difference is computed at a time, because that calls helm and the API server. */
  #currentDiff: { readonly of: string; readonly text: Promise<string> } | undefined;

  constructor(sources: PageSources) {
    this.#sources = sources;
    const { clock, secrets, snapshot, about } = sources;
    this.#viewModel = new ViewModel({
      clock,
      read: () => pageStateOf(snapshot(), clock.now(), about),
      redact: (value) => secrets.redactDeep(value),
    });
  }

  /** The number of open pages. */
  get viewers(): number {
    return this.#viewModel.viewers;
  }

  /** Schedules a refresh of the open pages: something may have changed. */
  notifyChange(): void {
    this.#viewModel.notifyChange();
  }

  close(): void {
    this.#viewModel.close();
  }

  /** Answers a request over TCP, which another site may have made a browser send. */
  async answerGuarded(request: PageRequest): Promise<PageResponse> {
    const why = refusalReason(request);
    return why === undefined ? this.answer(request) : errorResponse(403, why);
  }

  async answer({ path, query }: PageRequest): Promise<PageResponse> {
    if (path === "/ui")
      return { ...errorResponse(308, "see /ui/"), headers: { ...HEADERS, location: "/ui/" } };
    if (path === "/ui/events") return this.#stream();
    if (FILES.has(path)) return this.#file(path);
    if (path === "/ui/graph") return jsonResponse(this.#graph());
    if (path === "/ui/runs") {
      const { secrets, runs } = this.#sources;
      return jsonResponse(secrets.redactDeep(runRows(runs, query.get("name") ?? undefined)));
    }
    if (path === "/ui/run") return this.#run(query.get("id") ?? "");
    return this.#modulePart(path.slice("/ui/".length), query.get("name") ?? "");
  }

  async #file(path: string): Promise<PageResponse> {
    const file = await pageFile(path, this.#sources.dir);
    if (file === undefined) return errorResponse(404, "the page is not built. Run: npm run build");
    return { status: 200, ...file, headers: HEADERS };
  }

  #stream(): PageResponse {
    if (!this.#viewModel.hasCapacity)
      return errorResponse(
        503,
        "the operator serves the maximum number of pages already. Close another page and try again",
      );
    const headers = { ...HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" };
    return { headers, stream: (sink) => this.#viewModel.addViewer(sink) };
  }

  /** Answers with a part of a module: details, values or the difference that a run would make. */
  async #modulePart(part: string, name: string): Promise<PageResponse> {
    if (part !== "module" && part !== "values" && part !== "diff") return errorResponse(404, "not found");
    const at = this.#sources.snapshot();
    const module = at.view.modules.get(name);
    if (module === undefined) return errorResponse(404, `module "${name}" does not exist`);
    if (part === "module") {
      const detail = detailOf(module, at, this.#sources.statusOf(name));
      return jsonResponse(this.#sources.secrets.redactDeep(detail));
    }
    return part === "values" ? jsonResponse(this.#values(module)) : this.#difference(module.module);
  }

  /** The values of a module. If its section is empty, those of its chart. */
  #values(module: ModuleView): unknown {
    const { secrets, statusValues, originsOf } = this.#sources;
    const { chart, chartDir, valuesKey } = module.module;
    const values = objectOf(module.values());
    const ofChart =
      chart === "root" && isEmpty(member(values, valuesKey))
        ? readMap(join(chartDir, "values.yaml"))
        : undefined;
    const { secretPaths } = module;
    const displayed = displayValues(
      ofChart === undefined ? values : { ...values, [valuesKey]: ofChart },
      statusValues,
      { secretPaths, secrets },
    );
    return secrets.redactDeep(
      ofChart === undefined
        ? sectionLeaves(displayed, valuesKey, originsOf(valuesKey))
        : chartLeaves(displayed, valuesKey),
    );
  }

  async #difference(module: Module): Promise<PageResponse> {
    if (this.#currentDiff !== undefined && this.#currentDiff.of !== module.name)
      return errorResponse(
        503,
        `the difference of module ${this.#currentDiff.of} is being computed; try again later`,
      );
    const { secrets, diff } = this.#sources;
    this.#currentDiff ??= { of: module.name, text: diff(module, (object) => redactObject(object, secrets)) };
    try {
      return { status: 200, body: secrets.redact(await this.#currentDiff.text), headers: HEADERS };
    } catch (error) {
      return errorResponse(500, secrets.redact(oneLine(error)));
    } finally {
      this.#currentDiff = undefined;
    }
  }

  #run(id: string): PageResponse {
    const { secrets, runs } = this.#sources;
    const found = runDetail(runs, id);
    return found === undefined
      ? errorResponse(404, "the operator has discarded this run")
      : jsonResponse(secrets.redactDeep(found));
  }

  #graph(): readonly GraphNode[] {
    return graphOf(this.#sources.snapshot().view, () => "").map(({ module, requires, after }) => ({
      name: module,
      requires: requires.flatMap(({ of, name, unmet }) =>
        of === "module" ? [{ name, met: unmet === undefined }] : [],
      ),
      after,
    }));
  }
}

/** An object without its secrets: a Secret loses all its data. */
function redactObject(object: JsonObject, secrets: KnownSecrets): Json {
  const paths = object["kind"] === "Secret" ? ["/data/*", "/stringData/*"] : [];
  return secrets.redactValues(object, new Set(paths));
}

function jsonResponse(value: unknown): PageResponse {
  return { status: 200, body: JSON.stringify(value), type: "application/json", headers: HEADERS };
}

function errorResponse(status: number, message: string): PageResponse & { status: number } {
  return { status, body: `${message}\n`, headers: HEADERS };
}

/** The headers that say which site sent a request. */
export interface RequestOrigin {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`; browsers send it also without an Origin, as for images and links. */
  readonly site?: string | undefined;
  readonly path?: string | undefined;
}

/** Values of `Sec-Fetch-Site` for requests of the page itself or typed by a user. */
const TRUSTED_SITES = new Set([undefined, "same-origin", "none"]);
/** Other sites may link here: these paths reveal nothing and start nothing. */
const LINKABLE_PATHS = new Set<string | undefined>(["/", "/ui", "/ui/"]);

/** Names that cannot be registered on the internet. Other names are refused as a protection from DNS rebinding. */
const LOCAL_NAMES = /^(?:localhost|[a-z0-9-]+|(?:[a-z0-9-]+\.)+(?:svc|cluster\.local|localhost))$/;

/** Why a request is refused; undefined if it is allowed. */
export function refusalReason({ host, origin, site, path }: RequestOrigin): string | undefined {
  const name = hostname(host);
  if (name === undefined || !(isIP(name) > 0 || LOCAL_NAMES.test(name)))
    return `the page is not served as "${name ?? ""}": use localhost, an address, or the name of its Service`;
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
    return "other sites may not read this page";
  if (!TRUSTED_SITES.has(site) && !LINKABLE_PATHS.has(path))
    return "other sites may not load parts of this page";
  return undefined;
}

/** The host without port and brackets. */
function hostname(host: string | undefined): string | undefined {
  const url = URL.parse(`http://${host ?? ""}/`);
  if (url === null || host === undefined || url.host === "" || url.username !== "") return undefined;
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

const FILES: ReadonlyMap<string, readonly [name: string, type: string]> = new Map([
  ["/ui/", ["index.html", "text/html; charset=utf-8"]],
  ["/ui/page.js", ["page.js", "text/javascript; charset=utf-8"]],
  ["/ui/page.css", ["page.css", "text/css; charset=utf-8"]],
]);

/** The file at a path; undefined if it was not built. */
async function pageFile(path: string, dir = pageDir()): Promise<{ type: string; body: string } | undefined> {
  const [name = "", type = ""] = FILES.get(path) ?? [];
  const file = `${dir ?? ""}/${name}`;
  return existsSync(file) ? { type, body: await readFile(file, "utf8") } : undefined;
}

/** The directory beside the bundle, or that of the last build. */
function pageDir(): string | undefined {
  return ["./page", "../../dist/page"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(`${path}/page.js`));
}
