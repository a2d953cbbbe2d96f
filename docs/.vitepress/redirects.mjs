/** Addresses that pages had before, without `.html`, and the page and heading that have their content now. */
export const redirects = {
  "reference/contract": "reference/settings#names-that-you-can-rely-on",
  INSTALL: "get-started/install",
  MODULES: "reference/addon-yaml",
  "get-started/first-hook": "get-started/first-module#write-a-hook",
  "reference/compatibility": "get-started/install#compatibility",
  "internals/decisions": "internals/architecture#reasons",
  "reference/operation": "guides/running#probes",
  "reference/traces": "reference/metrics#traces",
  "guides/debug": "guides/on-call#find-the-reason",
  "guides/module-updates": "guides/module-sources#control-when-updates-begin",
  "guides/order-modules": "reference/modules#order-modules",
  "guides/registries": "guides/module-sources#push-and-pull-modules",
  "guides/refuse-edits": "guides/webhooks#reject-wrong-edits",
};

/** The page at an old address. It leads browsers on, also without JavaScript. */
export function redirectPage(target, base) {
  const [path, heading] = target.split("#");
  const url = `${base}${path}.html${heading === undefined ? "" : `#${heading}`}`;
  return `<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=${url}">
<link rel="canonical" href="${url}">
<title>Moved</title>
<p>This page has moved to <a href="${url}">${target}</a>.</p>
`;
}
