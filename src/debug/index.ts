export * from "./http.ts";
export * from "./queue-dump.ts";
export { serveSocket, serveSocketAt } from "./server.ts";
export { serve, type Limits, type Listening } from "./web.ts";
export type { Sources } from "./routes.ts";
