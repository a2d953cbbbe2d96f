// A process that sends reviews at a fixed rate over HTTP/2, as the API server sends them, whatever becomes of the ones before.
import { fork } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:http2";
import { setInterval } from "node:timers/promises";
import { apiOf } from "./api.mjs";

const STEP_MS = 5;
/** So often a call comes over a new connection. */
const CONNECTION_MS = 250;
/** A client waits a little longer than the time that it names. */
const LATE_MS = 500;

/**
 * Sends `body` `rate` times a second for `leastMs`, and on until `certificates` were seen, `mostMs` at most: over one
 * connection, and beside it over new ones. `target` is `{ url, ca }`, or `{ kubeconfig, path }` of the configuration that
 * registers a webhook. Resolves to what became of the calls: `answered` (200), `refused` (another status), `late`, `failed`
 * (no answer), with `times` of all that were answered or refused, `errors` (each text once), `certificates`, the
 * fingerprints that were presented, and the processor time that sending took, in ms.
 */
export async function load(options) {
  const child = fork(import.meta.filename, { serialization: "advanced" });
  const ended = once(child, "exit").then(([code]) =>
    Promise.reject(new Error(`the load ended with ${code}`)),
  );
  child.send(options);
  const [outcome] = await Promise.race([once(child, "message"), ended]);
  ended.catch(() => {});
  child.disconnect();
  return outcome;
}

async function run({ rate, timeoutMs, body, target, leastMs, mostMs, certificates: most }) {
  const outcome = { answered: 0, refused: 0, late: 0, failed: 0, times: [], errors: new Set() };
  const failed = (error) => {
    outcome.failed += 1;
    outcome.errors.add(error.message);
  };
  const certificates = new Set();
  const send = (connection) => call(connection, { body, timeoutMs, outcome, failed });
  const find = finder(target);
  const anew = async () => {
    const connection = await connected(await find());
    certificates.add(connection.session.socket.getPeerCertificate().fingerprint256);
    await send(connection);
    connection.session.close();
  };
  const open = await connected(await find());
  const calls = [];
  const [from, cpu] = [performance.now(), process.cpuUsage()];
  let next = from;
  for await (const _ of setInterval(STEP_MS)) {
    const now = performance.now();
    if (now >= next) {
      next = now + CONNECTION_MS;
      calls.push(anew().catch(failed));
    }
    const due = ((now - from) * rate) / 1000;
    while (calls.length < due && open.waiting < open.most) calls.push(send(open));
    if (now - from > mostMs || (now - from >= leastMs && certificates.size >= most)) break;
  }
  const seconds = (performance.now() - from) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  await Promise.all(calls);
  open.session.close();
  return { ...outcome, sent: calls.length, seconds, certificates, cpuMs: (user + system) / 1000 };
}

/** Returns a function that resolves to where, and with which CA, the API server calls the webhook at that moment. */
function finder({ kubeconfig, path, ...fixed }) {
  if (kubeconfig === undefined) return async () => fixed;
  const api = apiOf(kubeconfig);
  return () => registeredTarget(api, path);
}

/** Where, and with which CA, the API server calls the webhook that the configuration at `path` registers at this moment. */
export async function registeredTarget(api, path) {
  const [{ clientConfig }] = (await api.get(path)).webhooks;
  return { url: clientConfig.url, ca: Buffer.from(clientConfig.caBundle, "base64") };
}

/**
 * Resolves when it is known how many streams the server takes at one time: one more ends the connection. `most` is half as
 * many, since streams go on for some time after their answer.
 */
function connected({ url, ca }) {
  return new Promise((resolve, reject) => {
    const { origin, pathname } = new URL(url);
    const session = connect(origin, { ca });
    session.once("remoteSettings", ({ maxConcurrentStreams }) =>
      resolve({ session, path: pathname, waiting: 0, most: maxConcurrentStreams / 2 }),
    );
    session.on("error", reject).once("close", () => reject(new Error("the connection ended")));
  });
}

/** Sends one review and notes what becomes of it. */
async function call(connection, { body, timeoutMs, outcome, failed }) {
  const { session, path } = connection;
  const from = performance.now();
  connection.waiting += 1;
  try {
    const status = await post(session, `${path}?timeout=${timeoutMs}ms`, body);
    const took = performance.now() - from;
    outcome.times.push(took);
    if (took > timeoutMs + LATE_MS) outcome.late += 1;
    else if (status === 200) outcome.answered += 1;
    else outcome.refused += 1;
  } catch (error) {
    // A refusal by HTTP/2 itself.
    if (error.message.includes("ENHANCE_YOUR_CALM")) outcome.refused += 1;
    else failed(error);
  } finally {
    connection.waiting -= 1;
  }
}

/**
 * The status of the answer, once it is there as a whole. A server that refuses a request does not wait for its body, and
 * then Node's client never closes the stream if it could not send the body before.
 */
function post(session, path, body) {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/json",
    });
    let status = 0;
    stream.once("response", (headers) => (status = headers[":status"]));
    stream.once("error", reject);
    const settle = () => (status === 0 ? reject(new Error("no answer")) : resolve(status));
    stream.once("end", settle).once("close", settle);
    stream.resume().end(body);
  });
}

if (import.meta.main) {
  const [options] = await once(process, "message");
  process.send(await run(options));
  await once(process, "disconnect");
  process.exit();
}
