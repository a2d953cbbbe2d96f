/** Guards the page, which has no login, against requests that other web sites make a user's browser send. */

import { isIP } from "node:net";

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

/**
 * Why a request is refused; undefined if it is allowed. Checks the host name (against DNS rebinding), the header Origin, and Sec-Fetch-Site
 * (`site`), by which browsers show whether another site has caused the request: then only paths to which sites may link are allowed.
 */
export function findRefusalReason({ host, origin, site, path }: RequestOrigin): string | undefined {
  const name = parseHostname(host);
  const isOwnName = name !== undefined && (isIP(name) > 0 || LOCAL_NAMES.test(name));
  if (!isOwnName)
    return `the operator does not serve the page at "${name ?? ""}". Use localhost, an IP address, or the name of its Service`;
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
    return "other sites cannot read this page";
  if (!TRUSTED_SITES.has(site) && !LINKABLE_PATHS.has(path))
    return "other sites cannot load parts of this page";
  return undefined;
}

/** The host name of a Host header, without port and brackets; undefined if the header is missing or invalid. */
function parseHostname(host: string | undefined): string | undefined {
  const url = URL.parse(`http://${host ?? ""}/`);
  if (url === null || host === undefined || url.host === "" || url.username !== "") return undefined;
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}
