import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** What a socket answers to a path: text with status 200, or both. */
export type Answer = string | { readonly status: number; readonly body: string };

/** A unix socket that answers as `answer` says until the test ends, and the setting that names it. */
export async function answeringSocket(
  answer: (path: string) => Answer,
): Promise<{ socket: string; setting: string }> {
  const dir = mkdtempSync(join(tmpdir(), "socket-"));
  const socket = join(dir, "socket");
  const server = createServer((request, response) => {
    const given = answer(request.url ?? "");
    const { status, body } = typeof given === "string" ? { status: 200, body: given } : given;
    response.writeHead(status).end(body);
  });
  await new Promise<void>((done) => void server.listen(socket, done));
  onTestFinished(() => {
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return { socket, setting: `--debug-unix-socket=${socket}` };
}
