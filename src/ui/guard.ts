/** Who may ask for the page over TCP: a browser that was led here by another site may not. */

import { isIP } from "node:net";

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
