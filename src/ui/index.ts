export {
  SECURITY_HEADERS,
  Page,
  isPagePath,
  isPageFile,
  type PageResponse,
  type PageSources,
} from "./page.ts";
export { refusalReason, type RequestOrigin } from "./request-origin.ts";
