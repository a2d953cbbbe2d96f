/** A header that every request needs. */
export const HOST = "Host: a\r\n";
const CLOSE = `${HOST}Connection: close\r\n\r\n`;

/** Requests that nobody sends by accident; each is answered with one of the statuses (0: closed without an answer). */
export const HOSTILE: readonly (readonly [name: string, bytes: string, statuses: readonly number[]])[] = [
  ["a path of two slashes", `GET // HTTP/1.1\r\n${CLOSE}`, [200, 404]],
  ["a path that looks like a host", `GET //[ HTTP/1.1\r\n${CLOSE}`, [404]],
  ["a lone percent sign", `GET /% HTTP/1.1\r\n${CLOSE}`, [400, 404]],
  ["a percent sign that stands for no character", `GET /%ff%fe HTTP/1.1\r\n${CLOSE}`, [400, 404]],
  ["an encoded null byte", `GET /%00 HTTP/1.1\r\n${CLOSE}`, [404]],
  ["a query of percent signs", `GET /queue?output=%&%=% HTTP/1.1\r\n${CLOSE}`, [200]],
  ["the whole address", `GET http://elsewhere/version HTTP/1.1\r\n${CLOSE}`, [200, 404]],
  ["an address without a host", `GET http:// HTTP/1.1\r\n${CLOSE}`, [400]],
  ["an address of another kind", `GET data:constructor HTTP/1.1\r\n${CLOSE}`, [400, 404]],
  ["the name of a built-in", `GET /constructor HTTP/1.1\r\n${CLOSE}`, [404]],
  ["the name of a prototype", `GET /__proto__/toString HTTP/1.1\r\n${CLOSE}`, [404]],
  ["a view that is a built-in", `GET /global/constructor HTTP/1.1\r\n${CLOSE}`, [404]],
  ["no path", `OPTIONS * HTTP/1.1\r\n${CLOSE}`, [400, 405]],
  ["a proxy's CONNECT", `CONNECT a:80 HTTP/1.1\r\n${CLOSE}`, [0, 400, 405]],
  ["an upgrade", `GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n`, [200]],
  ["another method", `DELETE /healthz HTTP/1.1\r\n${CLOSE}`, [405]],
  ["an unknown method", `BREW / HTTP/1.1\r\n${CLOSE}`, [400]],
  ["two hosts", `GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n`, [200, 400]],
  ["no host", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", [400]],
  ["a null byte in the path", `GET /\0 HTTP/1.1\r\n${CLOSE}`, [400]],
  ["a null byte in a header", `GET / HTTP/1.1\r\nA: \0\r\n${CLOSE}`, [400]],
  ["huge headers", `GET / HTTP/1.1\r\n${HOST}A: ${"x".repeat(100_000)}\r\n\r\n`, [0, 431]],
  ["a huge path", `GET /${"x".repeat(100_000)} HTTP/1.1\r\n${CLOSE}`, [0, 431]],
  ["many headers", `GET / HTTP/1.1\r\n${"A: b\r\n".repeat(10_000)}${CLOSE}`, [0, 431]],
  [
    "lengths that disagree",
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx`,
    [400],
  ],
  [
    "two kinds of length",
    `POST / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx`,
    [400],
  ],
  ["a negative length", `POST / HTTP/1.1\r\n${HOST}Content-Length: -1\r\n\r\n`, [400]],
  [
    "a chunk of endless size",
    `POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n`,
    [0, 400, 405],
  ],
  ["another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]],
  ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [0, 400, 405]],
  ["nothing but line ends", "\r\n".repeat(10_000), [0, 400, 431]],
];
