export { Loop } from "./loop.ts";
