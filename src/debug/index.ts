export * from "./http.ts";
export * from "./queue-dump.ts";
export { QueueFile } from "./queue-file.ts";
export { serveSocket, serveSocketAtFirst } from "./server.ts";
export { serve, type WebLimits, type RunningServer } from "./web.ts";
export type { Sources } from "./sources.ts";
