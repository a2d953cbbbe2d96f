/** The page: who may ask, its files, its stream, and what it asks for (docs/UI.md). Nothing of it changes anything. */

import { isIP } from "node:net";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { oneLine, type Clock, type KnownSecrets } from "../lib/index.ts";
import type { Json, JsonObject, Module } from "../model/index.ts";
import { graphOf, type Moment } from "../plan/index.ts";
import type { ModuleView } from "../state/index.ts";
import { showValues, type ModuleStatus, type StatusValues } from "../status/index.ts";
import type { RunRing } from "../trace/index.ts";
import { Board, sceneOf } from "./board.ts";
import { detailOf, leavesOf, runDetail, runRows } from "./detail.ts";
import type { Outlet } from "./streams.ts";
import type { GraphNode, OperatorRow, RunRow } from "./wire.ts";

/** What the page shows. */
export interface PageSources {
  readonly clock: Clock;
  readonly secrets: KnownSecrets;
  readonly about: Pick<OperatorRow, "version" | "name" | "namespace">;
  /** Where the files of the page are; not set: beside the program. */
  readonly dir?: string;
  readonly moment: () => Moment;
  /** `--status-values`: what is kept out of statuses is kept out of the page. */
  readonly statusValues: StatusValues;
  readonly statusOf: (module: string) => ModuleStatus | undefined;
  /** Which layer set each leaf of a section, by JSON pointer. */
  readonly originsOf: (section: string) => JsonObject;
  /** The last runs of tasks. */
  readonly runs: Pick<RunRing, "view" | "views">;
  /** What a run would change; `shown` is what is shown of an object. */
  readonly diff: (module: Module, shown: (object: JsonObject) => Json) => Promise<string>;
}

/** A request for something below `/ui`. */
export interface PageRequest extends Whence {
  readonly path: string;
  readonly query: URLSearchParams;
}

/** What is answered: a body, or a stream that goes on. */
export type PageAnswer =
  | {
      readonly status: number;
      readonly body: string;
      readonly type?: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  | { readonly stream: (outlet: Outlet) => void; readonly headers: Readonly<Record<string, string>> };

/** Nothing but what is served here runs, is asked or is shown; no other site has a part in it. */
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

/** Whether a path is one of the page. */
export function isOfPage(path: string): boolean {
  return path === "/ui" || path.startsWith("/ui/");
}

/** Whether a path is one of the page's own files, which tell nothing of the operator. */
export function isPageFile(path: string): boolean {
  return path === "/ui" || FILES.has(path);
}

/** The page of an operator. */
export class Page {
  readonly #sources: PageSources;
  readonly #board: Board;
  /** One difference is made at a time: it asks helm and the API server. */
  #diff: { readonly of: string; readonly text: Promise<string> } | undefined;

  constructor(sources: PageSources) {
    this.#sources = sources;
    const { clock, secrets, moment, about } = sources;
    this.#board = new Board({
      clock,
      look: () => sceneOf(moment(), clock.now(), about),
      redact: (value) => secrets.redactDeep(value),
    });
  }

  /** How many pages look. */
  get viewers(): number {
    return this.#board.viewers;
  }

  /** Notes that something may have changed; costs nothing while nobody looks. */
  changed(): void {
    this.#board.changed();
  }

  /** Ends the streams. */
  close(): void {
    this.#board.close();
  }

  /** Answers a request that came over TCP, where browsers may be led here by other sites. */
  async answerGuarded(request: PageRequest): Promise<PageAnswer> {
    const why = refusal(request);
    return why === undefined ? this.answer(request) : failed(403, why);
  }

  async answer({ path, query }: PageRequest): Promise<PageAnswer> {
    if (path === "/ui") return { ...failed(308, "see /ui/"), headers: { ...HEADERS, location: "/ui/" } };
    if (path === "/ui/events") return this.#stream();
    if (FILES.has(path)) return this.#file(path);
    if (path === "/ui/graph") return asJson(this.#graph());
    if (path === "/ui/runs") return asJson(this.#runs(query.get("name") ?? undefined));
    if (path === "/ui/run") return this.#run(query.get("id") ?? "");
    return this.#ofModule(path.slice("/ui/".length), query.get("name") ?? "");
  }

  async #file(path: string): Promise<PageAnswer> {
    const file = await pageFile(path, this.#sources.dir);
    if (file === undefined) return failed(404, "the page is not built: npm run build");
    return { status: 200, ...file, headers: HEADERS };
  }

  #stream(): PageAnswer {
    if (!this.#board.hasRoom) return failed(503, "as many pages look at this operator as may");
    const headers = { ...HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" };
    return { headers, stream: (outlet) => this.#board.show(outlet) };
  }

  async #ofModule(what: string, name: string): Promise<PageAnswer> {
    if (what !== "module" && what !== "values" && what !== "diff") return failed(404, "not found");
    const at = this.#sources.moment();
    const module = at.view.modules.get(name);
    if (module === undefined) return failed(404, "there is no such module");
    if (what === "module") {
      const detail = detailOf(module, at, this.#sources.statusOf(name));
      return asJson(this.#sources.secrets.redactDeep(detail));
    }
    return what === "values" ? asJson(this.#values(module)) : this.#difference(module.module);
  }

  #values(module: ModuleView): unknown {
    const { secrets, statusValues, originsOf } = this.#sources;
    const { valuesKey } = module.module;
    const shown = showValues(module.values(), statusValues, { secretPaths: module.secretPaths, secrets });
    return secrets.redactDeep(leavesOf(shown, valuesKey, originsOf(valuesKey)));
  }

  async #difference(module: Module): Promise<PageAnswer> {
    if (this.#diff !== undefined && this.#diff.of !== module.name)
      return failed(503, `the difference of ${this.#diff.of} is being made; try again`);
    const { secrets, diff } = this.#sources;
    this.#diff ??= { of: module.name, text: diff(module, (object) => shownObject(object, secrets)) };
    try {
      return { status: 200, body: secrets.redact(await this.#diff.text), headers: HEADERS };
    } catch (error) {
      return failed(500, secrets.redact(oneLine(error)));
    } finally {
      this.#diff = undefined;
    }
  }

  #runs(module: string | undefined): readonly RunRow[] {
    return this.#sources.secrets.redactDeep(runRows(this.#sources.runs, module));
  }

  #run(id: string): PageAnswer {
    const { secrets, runs } = this.#sources;
    const found = runDetail(runs, id);
    return found === undefined
      ? failed(404, "this run is not kept any more")
      : asJson(secrets.redactDeep(found));
  }

  #graph(): readonly GraphNode[] {
    return graphOf(this.#sources.moment().view, () => "").map(({ module, requires, after }) => ({
      name: module,
      requires: requires.flatMap(({ of, name, unmet }) =>
        of === "module" ? [{ name, met: unmet === undefined }] : [],
      ),
      after,
    }));
  }
}

/** An object without its secrets; of a Secret that is all that it holds. */
function shownObject(object: JsonObject, secrets: KnownSecrets): Json {
  const paths = object["kind"] === "Secret" ? ["/data/*", "/stringData/*"] : [];
  return secrets.redactValues(object, new Set(paths));
}

function asJson(value: unknown): PageAnswer {
  return { status: 200, body: JSON.stringify(value), type: "application/json", headers: HEADERS };
}

function failed(status: number, why: string): PageAnswer & { status: number } {
  return { status, body: `${why}\n`, headers: HEADERS };
}

/** What a request says of where it comes from. */
export interface Whence {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** What the browser says of who asks (`Sec-Fetch-Site`), also where it names no origin: for an image, or a link. */
  readonly site?: string | undefined;
  readonly path?: string | undefined;
}

/** From the page itself, or typed by a person. */
const OUR_SITES = new Set([undefined, "same-origin", "none"]);
/** Where other sites may link to: this tells nothing and starts nothing. */
const ENTRANCES = new Set<string | undefined>(["/", "/ui", "/ui/"]);

/** Names that nobody on the internet can give an address of their choice, which is how a page of theirs gets around the browser. */
const OUR_NAMES = /^(?:localhost|[a-z0-9-]+|(?:[a-z0-9-]+\.)+(?:svc|cluster\.local|localhost))$/;

/** Why a request is refused; undefined where it is not. */
export function refusal({ host, origin, site, path }: Whence): string | undefined {
  const name = hostname(host);
  if (name === undefined || !(isIP(name) > 0 || OUR_NAMES.test(name)))
    return `the page is not served as "${name ?? ""}": use localhost, an address, or the name of its Service`;
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
    return "other sites may not read this page";
  if (!OUR_SITES.has(site) && !ENTRANCES.has(path)) return "other sites may not ask for parts of this page";
  return undefined;
}

/** Without port and brackets. */
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

/** The file at a path, from the directory `dir`; undefined where it was not built. */
async function pageFile(path: string, dir = pageDir()): Promise<{ type: string; body: string } | undefined> {
  const [name = "", type = ""] = FILES.get(path) ?? [];
  const file = `${dir ?? ""}/${name}`;
  return existsSync(file) ? { type, body: await readFile(file, "utf8") } : undefined;
}

/** Beside the bundle, or where the last build left it. */
function pageDir(): string | undefined {
  return ["./page", "../../dist/page"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(`${path}/page.js`));
}
