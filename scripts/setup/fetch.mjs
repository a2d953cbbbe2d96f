// GET by Node alone: redirects, proxies, and transfers that go on where they broke off.
import { appendFileSync, closeSync, openSync, rmSync, statSync } from "node:fs";
import { proxyFor, refusal, requestTo } from "./proxy.mjs";

const ANSWER_TIMEOUT_MS = 8000;
const STALL_TIMEOUT_MS = 20_000;
const TRIES = 5;
const HOPS = 5;
const TEXT_LIMIT = 4 * 1024 * 1024;

/**
 * Resolves to the answer (200, 206 or 416), its body not yet read. Errors with `unreachable` mean that the site, or
 * the way to it, does not answer at all.
 */
async function open(url, headers, { env, hops = HOPS } = {}) {
  const response = await answer(url, headers, env);
  const { statusCode: status, headers: got } = response;
  if ([200, 206, 416].includes(status)) return response;
  response.resume();
  if (status === 407) throw failure(refusal(proxyFor(url, env), 407), { unreachable: true });
  if (status < 300 || status >= 400 || !got.location) throw failure(`HTTP ${status}`);
  const next = new URL(got.location, url).href;
  if (hops === 0) throw failure("too many redirects");
  if (url.startsWith("https:") && !next.startsWith("https:"))
    throw failure(`it redirects to ${new URL(next).origin}, which is not encrypted: not followed`);
  return open(next, headers, { env, hops: hops - 1 });
}

async function answer(url, headers, env) {
  const options = {
    headers: { "user-agent": "addon-operator-setup", ...headers },
    timeout: ANSWER_TIMEOUT_MS,
  };
  const unreachable = ({ message }) => failure(message, { unreachable: true });
  const call = await requestTo(url, options, env).catch((error) => Promise.reject(unreachable(error)));
  return new Promise((resolve, reject) => {
    const late = () => call.destroy(new Error(`no answer within ${ANSWER_TIMEOUT_MS / 1000} s`));
    const timer = setTimeout(late, ANSWER_TIMEOUT_MS);
    call.once("response", (response) => {
      clearTimeout(timer);
      const stalled = new Error(`it stood still for ${STALL_TIMEOUT_MS / 1000} s`);
      call.setTimeout(STALL_TIMEOUT_MS, () => response.destroy(stalled));
      resolve(response);
    });
    call.on("error", (error) => (clearTimeout(timer), reject(unreachable(error))));
    call.end();
  });
}

const failure = (message, more = {}) => Object.assign(new Error(message), more);

/** A small text. */
export async function fetchText(url, env) {
  const response = await open(url, {}, { env });
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) {
    text += chunk;
    if (text.length > TEXT_LIMIT) throw failure("it is longer than any list of checksums");
  }
  return text;
}

/**
 * Fetches `url` into `path`, going on after what is there already; what came stays there when it breaks off for good.
 * Calls `onBytes(have, all)` with the progress.
 */
export async function fetchFile(url, path, { env, onBytes } = {}) {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await transfer(url, path, { env, onBytes });
    } catch (error) {
      if (!error.broken || left === 0) throw error;
    }
  }
}

async function transfer(url, path, { env, onBytes = () => {} }) {
  const had = sizeOf(path);
  const response = await open(url, had > 0 ? { range: `bytes=${had}-` } : {}, { env });
  const goesOn =
    response.statusCode === 206 && response.headers["content-range"]?.startsWith(`bytes ${had}-`);
  if (response.statusCode !== 200 && !goesOn) {
    response.destroy();
    rmSync(path, { force: true });
    throw failure("it cannot go on where it broke off", { broken: true });
  }
  const length = Number(response.headers["content-length"]);
  const all = length ? (goesOn ? had : 0) + length : undefined;
  const file = openSync(path, goesOn ? "a" : "w");
  try {
    await new Promise((done, failed) => {
      // Written as it comes, so that nothing that came is lost when it breaks off.
      response.on("data", (chunk) => {
        try {
          appendFileSync(file, chunk);
          onBytes(sizeOf(path), all);
        } catch (error) {
          response.destroy(error);
        }
      });
      response.once("error", failed);
      response.once("end", done);
    });
  } catch (error) {
    if (isDiskFull(error)) throw error;
    const far = `after ${megabytes(sizeOf(path))}${all ? ` of ${megabytes(all)}` : ""}`;
    throw failure(`it broke off ${far} (${error.message}): run again, and it goes on there`, {
      broken: true,
    });
  } finally {
    closeSync(file);
  }
}

/** True also for a quota, and for a limit of the shell. */
export const isDiskFull = ({ code }) => ["ENOSPC", "EDQUOT", "EFBIG"].includes(code);

/** What programs say of a full disk; GNU tar tells of a short write, and the shell's limit ends them. */
const DISK_FULL = /ENOSPC|No space left|quota exceeded|File too large|Wrote only \d+ of \d+ bytes|SIGXFSZ/i;

/** True when a program that failed says so. */
export const saysDiskFull = (text) => DISK_FULL.test(text);

export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

export function sizeOf(path) {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
