/** What the flags of V8 save, counted in processes of their own. */

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

import { NODE_FLAGS } from "../../scripts/build.mjs";
import { root } from "../../scripts/setup/versions.mjs";

const run = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });

/** How many of Node's own modules a process with these flags compiles itself. */
function countCompiled(...flags: string[]): number {
  const usage = `require("internal/test/binding").internalBinding("builtins").getCacheUsage()`;
  return Number(
    run(...flags, "--expose-internals", "-p", `require("https"); ${usage}.compiledWithoutCache.size`),
  );
}

test("the flags of the launcher leave Node the modules that were compiled for it", () => {
  expect(countCompiled(...NODE_FLAGS.split(" "))).toBe(countCompiled());
  expect(countCompiled("--no-sparkplug")).toBeGreaterThan(countCompiled() + 20);
});

/** The compilers that a client of HTTP uses for WebAssembly; `prepare` runs before its first request. */
function listCompilers(prepare: string): string[] {
  const script = `
    import { createServer } from "node:http";
    import { setFlagsFromString } from "node:v8";
    import { Agent } from "undici";
    import { setV8Flags } from ${JSON.stringify(join(root, "src/main/v8-flags.ts"))};
    ${prepare}
    setFlagsFromString("--trace-wasm-compilation-times");
    const server = createServer((_, response) => response.end("text"));
    await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
    const agent = new Agent();
    const origin = "http://127.0.0.1:" + server.address().port;
    for (let requests = 0; requests < 1000; requests++)
      await (await agent.request({ origin, path: "/", method: "GET" })).body.text();
    await agent.close();
    server.close();`;
  const lines = run("--input-type=module", "-e", script).matchAll(/^Compiled function .* using (\w+)/gm);
  return [...new Set(Array.from(lines, ([, compiler = ""]) => compiler))].sort();
}

test("the parser of HTTP answers is not optimized", () => {
  expect(listCompilers("")).toEqual(["Liftoff", "TurboFan"]);
  expect(listCompilers("setV8Flags();")).toEqual(["Liftoff"]);
});
