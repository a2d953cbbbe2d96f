export {
  SECURITY_HEADERS,
  refusalReason,
  Page,
  isPagePath,
  isPageFile,
  type RequestOrigin,
  type PageResponse,
  type PageSources,
} from "./page.ts";
