export { Supply } from "./module-sources.ts";
