export { judgeObject } from "./judge.ts";
