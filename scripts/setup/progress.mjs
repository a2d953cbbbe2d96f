// The output of the set-up: lines, one line with the current progress, and child processes in it.
import { spawn } from "node:child_process";

/** Time that a child gets to end after SIGTERM. */
const PATIENCE_MS = 20_000;

const started = Date.now();
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;
const stamp = () => `[setup ${seconds(started).padStart(7)}]`;
const terminal = process.stderr.isTTY;
/** What is under way. */
const active = new Set();
let timer;

export function say(text) {
  process.stderr.write(`${terminal ? "\r\u001b[K" : ""}${stamp()} ${text}\n`);
}

/**
 * Shows `label`, `detail()` and the elapsed time until the returned function is called with what came of it: all that
 * is under way in one line, every second on a terminal, every 15 s elsewhere.
 */
export function begin(label, detail = () => "") {
  const one = { label, detail, from: Date.now() };
  if (!terminal) say(`${label} …`);
  active.add(one);
  timer ??= setInterval(show, terminal ? 1000 : 15_000);
  return (result) => {
    active.delete(one);
    if (active.size === 0) timer = clearInterval(timer);
    say(`${label}: ${result} in ${seconds(one.from)}`);
  };
}

function show() {
  const reported = [...active].map(({ label, detail, from }) => {
    const more = detail();
    return `${label} … ${more ? `${more}, ` : ""}${seconds(from)}`;
  });
  const line = `${stamp()} ${reported.join(" | ")}`;
  process.stderr.write(
    terminal ? `\r\u001b[K${line.slice(0, (process.stderr.columns ?? 80) - 1)}` : `${line}\n`,
  );
}

/**
 * Runs a command to its end, displayed as `label`. Resolves to `{ ok, output }`, output being the end of what it printed;
 * never throws. `onText` gets what it prints as it comes.
 */
export async function step(label, file, options = {}) {
  const { args = [], cwd, env, detail, onText = () => {} } = options;
  const end = begin(label, detail);
  const result = await new Promise((done) => {
    const start = () => spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    const { child, release } = passSignals(start);
    let output = "";
    const keep = (chunk) => {
      output = (output + chunk).slice(-8000);
      onText(String(chunk));
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.on("error", (error) => (release(), done({ ok: false, output: error.message })));
    child.on("close", (code, signal) => {
      release();
      done({ ok: code === 0, output: signal ? `${output}ended by ${signal}` : output });
    });
  });
  end(result.ok ? "done" : "failed");
  return result;
}

/**
 * An interrupted set-up ends its child and then itself. Unfinished files have temporary names. It waits for the child, because
 * npm takes a while to clean up, and would disturb the next set-up. A second signal kills the child.
 */
function passSignals(start) {
  let requested = false;
  const handler = () => {
    child.kill(requested ? "SIGKILL" : "SIGTERM");
    if (!requested) child.once("exit", () => process.exit(130));
    setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
    requested = true;
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, handler);
  const child = start();
  return { child, release: () => signals.forEach((signal) => process.off(signal, handler)) };
}
