// Child processes of the set-up, with a line that shows what runs and for how long.
import { spawn } from "node:child_process";

const started = Date.now();
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;

export function say(text) {
  process.stderr.write(`[setup ${seconds(started).padStart(7)}] ${text}\n`);
}

/**
 * Runs a command to its end, showing `label` and the elapsed time while it lasts (every second on a terminal,
 * every 15 s elsewhere). Resolves to `{ ok, output }`, output being the end of what it printed; never throws.
 */
export async function step(label, file, options = {}) {
  const { args = [], cwd, env } = options;
  const from = Date.now();
  const stop = ticker(label, from);
  const result = await new Promise((done) => {
    const child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    const release = passSignals(child);
    let output = "";
    const keep = (chunk) => (output = (output + chunk).slice(-8000));
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.on("error", (error) => (release(), done({ ok: false, output: error.message })));
    child.on("close", (code) => (release(), done({ ok: code === 0, output })));
  });
  stop();
  say(`${label}: ${result.ok ? "done" : "failed"} in ${seconds(from)}`);
  return result;
}

function ticker(label, from) {
  const terminal = process.stderr.isTTY;
  if (!terminal) say(`${label} …`);
  const show = () =>
    terminal
      ? process.stderr.write(`\r[setup ${seconds(started).padStart(7)}] ${label} … ${seconds(from)} `)
      : say(`${label} … ${seconds(from)}`);
  const timer = setInterval(show, terminal ? 1000 : 15_000);
  return () => {
    clearInterval(timer);
    if (terminal) process.stderr.write("\r\u001b[K");
  };
}

/** An interrupted set-up ends its child and then itself; what was half done lies under temporary names. */
function passSignals(child) {
  const handlers = ["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => {
    const handler = () => {
      child.kill("SIGTERM");
      child.once("close", () => process.exit(130));
      setTimeout(() => process.exit(130), 3000).unref();
    };
    process.on(signal, handler);
    return () => process.off(signal, handler);
  });
  return () => handlers.forEach((off) => off());
}
