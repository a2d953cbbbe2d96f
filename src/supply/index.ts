export { Supply } from "./supply.ts";
