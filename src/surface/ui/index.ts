export {
  SECURITY_HEADERS,
  Page,
  isPagePath,
  isPageFile,
  type PageResponse,
  type PageSources,
} from "./page.ts";
export { findRefusalReason, type RequestOrigin } from "./request-origin.ts";
