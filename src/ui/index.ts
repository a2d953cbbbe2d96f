export { refusal, type Whence } from "./guard.ts";
export { Page, isOfPage, type PageAnswer, type PageSources } from "./page.ts";
