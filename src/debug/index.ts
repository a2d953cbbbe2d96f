export * from "./ask.ts";
export * from "./http.ts";
export * from "./queue-dump.ts";
export { QueueFile } from "./queue-file.ts";
export { WAIT_FLAGS, waitFor } from "./wait.ts";
export { serveSocket, serveSocketAt } from "./server.ts";
export type { Limits, Listening } from "./web.ts";
export type { Sources } from "./routes.ts";
