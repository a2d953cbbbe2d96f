// A small client for the API server, so that no kubectl process is measured along.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";

export function apiOf(kubeconfig) {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig, "utf8"));
  const bytes = (text) => Buffer.from(text, "base64");
  const agent = new Agent({
    keepAlive: true,
    ca: bytes(clusters[0].cluster["certificate-authority-data"]),
    cert: bytes(users[0].user["client-certificate-data"]),
    key: bytes(users[0].user["client-key-data"]),
  });
  const { server } = clusters[0].cluster;
  const open = (path, options = {}) => request(new URL(path, server), { agent, ...options });
  return {
    get: (path) => answer(open(path)),
    text: (path) => answer(open(path), undefined, (text) => text),
    send: (method, path, body) =>
      answer(open(path, { method, headers: { "content-type": typeOf(method) } }), body),
    watch: (path, onEvent) => watch(open(`${path}${path.includes("?") ? "&" : "?"}watch=true`), onEvent),
    close: () => agent.destroy(),
  };
}

const typeOf = (method) => (method === "PATCH" ? "application/merge-patch+json" : "application/json");

function answer(call, body, read = JSON.parse) {
  return new Promise((resolve, reject) => {
    call.once("error", reject);
    call.once("response", async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      const ok = response.statusCode < 300;
      if (ok) resolve(read(text));
      else reject(new Error(`${call.method} ${call.path}: ${response.statusCode} ${text.slice(0, 300)}`));
    });
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Resolves, when the server has begun to answer, to a function that ends the watch. */
function watch(call, onEvent) {
  return new Promise((resolve, reject) => {
    call.once("error", reject);
    call.once("response", (response) => {
      let rest = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop();
        for (const line of lines) onEvent(JSON.parse(line));
      });
      response.on("error", () => {});
      resolve(() => call.destroy());
    });
    call.end();
  });
}
