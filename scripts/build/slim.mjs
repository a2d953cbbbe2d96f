// What the bundle leaves out of its dependencies: code that the program never calls, and that costs start time and
// memory in every process.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../setup/versions.mjs";

/** client-node's generated API classes: the program talks raw JSON and uses the credentials only. */
const GENERATED = `
export class ServerConfiguration {}
export function createConfiguration() {
  throw new Error("the generated API is not part of the bundle");
}
`;

/** undici without fetch, caches, mocks and web sockets. */
const UNDICI = `
import api from "./lib/api/index.js";
import Dispatcher from "./lib/dispatcher/dispatcher.js";
Object.assign(Dispatcher.prototype, api);
export { default as Agent } from "./lib/dispatcher/agent.js";
export { default as ProxyAgent } from "./lib/dispatcher/proxy-agent.js";
export { default as Socks5ProxyAgent } from "./lib/dispatcher/socks5-proxy-agent.js";
`;

/** undici's other parser of HTTP, which a variable selects. */
const OTHER_PARSER = `
exports.setup = () => {
  throw new Error("UNDICI_USE_MILO: this parser is not part of the bundle");
};
`;

/** Proxies in client-node, which undici replaces: only the credentials are used. Spans in prom-client, for exemplars that are off. */
const UNUSED = `
class Agent {}
module.exports = { SocksProxyAgent: Agent, SocksClient: Agent, HttpProxyAgent: Agent, HttpsProxyAgent: Agent };
`;
const UNUSED_OF = {
  "client-node": /^(?:socks-proxy-agent|socks|hpagent)$/,
  "prom-client": /^@opentelemetry\/api$/,
};

/**
 * To import these as modules calls all their getters: those of http load Node's own fetch, those of process open its
 * standard input. That is 30 ms and 12 MB for the first alone.
 */
const WITH_GETTERS = /^(?:node:)?(?:http|process|util)$/;

const CONTENTS = { gen: GENERATED, undici: UNDICI, milo: OTHER_PARSER, unused: UNUSED };

/** An esbuild plug-in. */
export const slim = {
  name: "slim",
  setup(build) {
    const inside = (name) => join(root, "node_modules", name);
    build.onResolve({ filter: /^\.\/gen\/index\.js$/ }, ({ importer }) =>
      importer.includes("client-node") ? { path: "gen", namespace: "slim" } : undefined,
    );
    // A pattern in it has a letter that is not plain ASCII.
    build.onLoad({ filter: /cel-js.lib.functions\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replaceAll("µ", String.raw`\u00b5`),
      loader: "js",
    }));
    build.onResolve({ filter: WITH_GETTERS }, ({ path }) => ({ path, namespace: "node" }));
    build.onLoad({ filter: /.*/, namespace: "node" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
      loader: "js",
    }));
    build.onResolve({ filter: /^undici$/ }, () => ({ path: "undici", namespace: "slim" }));
    for (const [user, filter] of Object.entries(UNUSED_OF))
      build.onResolve({ filter }, ({ importer }) =>
        importer.includes(user) ? { path: "unused", namespace: "slim" } : undefined,
      );
    build.onResolve({ filter: /\/milo\/(?:no-)?simd\.js$/ }, () => ({ path: "milo", namespace: "slim" }));
    build.onLoad({ filter: /.*/, namespace: "slim" }, ({ path }) => ({
      contents: CONTENTS[path],
      resolveDir: inside("undici"),
      loader: "js",
    }));
  },
};
