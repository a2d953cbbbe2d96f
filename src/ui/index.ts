export { refusal, Page, isOfPage, type Whence, type PageAnswer, type PageSources } from "./page.ts";
