export * from "./http.ts";
export * from "./queue-dump.ts";
export { serveSocket, serveFirstUsableSocket } from "./server.ts";
export { serve, type WebLimits, type RunningServer } from "./web.ts";
export type { DebugSources } from "./sources.ts";
