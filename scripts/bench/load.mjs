// Reviews at a fixed rate over HTTP/2, as the API server sends them, whatever becomes of the ones before.
import { connect } from "node:http2";
import { setInterval } from "node:timers/promises";

const STEP_MS = 5;
/** So often a call comes over a new connection. */
const CONNECTION_MS = 250;
/** A client waits a little longer than the time that it names. */
const LATE_MS = 500;

/**
 * Sends `body` `rate` times a second until `ends(certificates, ms)`: over one connection, and beside it over new ones, for
 * which `target()` gives `{ url, ca }`. Resolves to what became of the calls: `answered` (200), `refused` (another status),
 * `late`, `failed` (no answer), with `times` of all that were answered or refused, `errors` (each text once), and
 * `certificates`, the fingerprints that were presented.
 */
export async function load({ rate, timeoutMs, body, target, ends }) {
  const outcome = { answered: 0, refused: 0, late: 0, failed: 0, times: [], errors: new Set() };
  const failed = (error) => {
    outcome.failed += 1;
    outcome.errors.add(error.message);
  };
  const certificates = new Set();
  const send = (connection) => call(connection, { body, timeoutMs, outcome, failed });
  const anew = async () => {
    const connection = await connected(await target());
    certificates.add(connection.session.socket.getPeerCertificate().fingerprint256);
    await send(connection);
    connection.session.close();
  };
  const open = await connected(await target());
  const calls = [];
  const from = performance.now();
  let next = from;
  for await (const _ of setInterval(STEP_MS)) {
    const now = performance.now();
    if (now >= next) {
      next = now + CONNECTION_MS;
      calls.push(anew().catch(failed));
    }
    while (calls.length < ((now - from) * rate) / 1000) calls.push(send(open));
    if (ends(certificates, now - from)) break;
  }
  const seconds = (performance.now() - from) / 1000;
  await Promise.all(calls);
  open.session.close();
  return { ...outcome, sent: calls.length, seconds, certificates };
}

/** Resolves when it is known how many streams the server takes at one time: one more ends the connection. */
function connected({ url, ca }) {
  return new Promise((resolve, reject) => {
    const { origin, pathname } = new URL(url);
    const session = connect(origin, { ca });
    session.once("remoteSettings", () => resolve({ session, path: pathname }));
    session.on("error", reject).once("close", () => reject(new Error("the connection ended")));
  });
}

/** Sends one review and notes what becomes of it. */
async function call({ session, path }, { body, timeoutMs, outcome, failed }) {
  const from = performance.now();
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
