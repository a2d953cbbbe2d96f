// HTTP requests from where the way out is a proxy: HTTPS_PROXY, HTTP_PROXY and NO_PROXY as curl and Go read them.
import { request as plain } from "node:http";
import { request as secure } from "node:https";
import { connect } from "node:tls";

/** The proxy for an address, or undefined. */
export function proxyFor(url, env = process.env) {
  const { protocol, hostname, port } = new URL(url);
  const named = (name) => env[name] || env[name.toLowerCase()];
  const proxy = named(protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY");
  if (!proxy || isLoopback(hostname)) return undefined;
  const exempt = (named("NO_PROXY") ?? "").split(/[\s,]+/).some((entry) => covers(entry, hostname, port));
  return exempt ? undefined : parsed(proxy);
}

const isLoopback = (host) => host === "localhost" || host === "[::1]" || host.startsWith("127.");

/** `*`, `host`, `.domain`, `*.domain`, each with or without a port; a name covers what is below it, too. */
function covers(entry, host, port) {
  const [, name, only] = /^\*?\.?(.*?)(?::(\d+))?$/.exec(entry);
  if (entry === "*") return true;
  if (name === "" || (only && only !== port)) return false;
  return host === name || host.endsWith(`.${name}`);
}

function parsed(proxy) {
  try {
    return new URL(/^[a-z]+:\/\//i.test(proxy) ? proxy : `http://${proxy}`);
  } catch {
    throw new Error(
      "HTTPS_PROXY or HTTP_PROXY is no address: http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT",
    );
  }
}

/** `node:http`'s `request` for an address, through the proxy where there is one; resolves to the request, not yet ended. */
export async function requestTo(url, options, env) {
  const proxy = proxyFor(url, env);
  const headers = { ...options.headers, host: new URL(url).host };
  if (!url.startsWith("https:")) {
    if (!proxy) return plain(url, { agent: false, ...options });
    return toProxy(proxy, { ...options, headers: { ...headers, ...credentials(proxy) }, path: url });
  }
  if (!proxy) return secure(url, { agent: false, ...options });
  const socket = await tunnel(proxy, new URL(url), options.timeout);
  // Without an agent, since an agent would make the connection itself.
  return secure(url, { ...options, headers, createConnection: () => socket });
}

function toProxy(proxy, options) {
  const port = proxy.port || (proxy.protocol === "https:" ? 443 : 80);
  return (proxy.protocol === "https:" ? secure : plain)({
    agent: false,
    host: proxy.hostname,
    port,
    ...options,
  });
}

function credentials({ username, password }) {
  if (!username) return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { "proxy-authorization": `Basic ${Buffer.from(pair).toString("base64")}` };
}

function tunnel(proxy, target, timeout) {
  const to = `${target.hostname}:${target.port || 443}`;
  const headers = { host: to, ...credentials(proxy) };
  return new Promise((resolve, reject) => {
    const call = toProxy(proxy, { method: "CONNECT", path: to, headers, timeout });
    call.once("connect", ({ statusCode }, socket) => {
      if (statusCode !== 200) {
        socket.destroy();
        reject(new Error(refusal(proxy, statusCode)));
        return;
      }
      const inner = connect({ socket, servername: target.hostname });
      inner.once("secureConnect", () => resolve(inner));
      inner.once("error", reject);
    });
    call.once("timeout", () => call.destroy(new Error("no answer")));
    call.once("error", (error) => reject(new Error(`proxy ${proxy.host}: ${error.message}`)));
    call.end();
  });
}

/** The meaning of a refusal by a proxy. The message contains neither user name nor password. */
export function refusal(proxy, status) {
  if (status !== 407) return `proxy ${proxy.host}: HTTP ${status}`;
  return proxy.username
    ? `proxy ${proxy.host} refuses the user name and password in HTTPS_PROXY`
    : `proxy ${proxy.host} wants a user name and a password: export HTTPS_PROXY=http://USER:PASSWORD@${proxy.host} (special characters as %XX)`;
}
