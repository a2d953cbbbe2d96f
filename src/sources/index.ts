export { ModuleSources } from "./module-sources.ts";
