import { podinfoScenario } from "../podinfo.mjs";

export default podinfoScenario(500);
