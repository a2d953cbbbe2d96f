export { previewStart } from "./start-preview.ts";
