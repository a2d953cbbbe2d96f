import { connect } from "node:net";
import type { Socket } from "node:net";

/** Where a face listens. */
export type Address = { readonly port: number } | { readonly path: string };

export function open(address: Address): Socket {
  return "port" in address ? connect(address.port, "127.0.0.1") : connect(address.path);
}

/** Sends bytes as they are and resolves with what came back by the time the other side has closed. */
export function exchange(address: Address, bytes: string | Buffer, halfClose = false): Promise<string> {
  return new Promise((resolve) => {
    const socket = open(address);
    let heard = "";
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => void (heard += chunk));
    socket.on("error", () => {});
    socket.on("close", () => resolve(heard));
    if (halfClose) socket.end(bytes);
    else socket.write(bytes);
  });
}

/** The status of the first answer in what came back; 0 for a connection that was closed without one. */
export function statusOf(heard: string): number {
  return heard.startsWith("HTTP/1.1 ") ? Number(heard.slice(9, 12)) : 0;
}

/** One well-formed GET; the connection is closed by the server after it. */
export function get(address: Address, path: string): Promise<string> {
  return exchange(address, `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
}
