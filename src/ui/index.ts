export {
  HEADERS,
  refusal,
  Page,
  isOfPage,
  isPageFile,
  type Whence,
  type PageAnswer,
  type PageSources,
} from "./page.ts";
