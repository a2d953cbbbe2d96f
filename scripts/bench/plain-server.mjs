// A process that refuses all requests over HTTP/2 at once: what reviews cost any server, with nothing behind it.
import { fork } from "node:child_process";
import { once } from "node:events";
import { createSecureServer } from "node:http2";

/** Starts it with `{ cert, key }`. Resolves to its port and a function that ends it. */
export async function plainServer(certificate) {
  const child = fork(import.meta.filename);
  child.send(certificate);
  const [port] = await once(child, "message");
  return { port, stop: () => child.disconnect() };
}

function serve(certificate) {
  const options = { ...certificate, settings: { maxConcurrentStreams: 512 } };
  const unlimited = { streamResetBurst: 2 ** 31, streamResetRate: 2 ** 31 };
  const server = createSecureServer({ ...options, ...unlimited });
  server.on("stream", (stream) => {
    stream.on("error", () => {}).resume();
    stream.respond({ ":status": 429 });
    stream.end("too many requests at one time\n");
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
}

if (import.meta.main) {
  process.once("disconnect", () => process.exit());
  const [certificate] = await once(process, "message");
  serve(certificate);
}
