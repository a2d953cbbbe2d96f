import { expect, it } from "vitest";

import { describeUnknownKeys } from "../../../src/values/index.ts";

const KNOWN = [{ valuesKey: "ingressNginx" }, { valuesKey: "web" }];

it.each([
  ["ingresNginx", "ingresNginx (did you mean ingressNginx?)"],
  ["ingress-nginx", "ingress-nginx (did you mean ingressNginx?)"],
  ["ingressNginxEnable", "ingressNginxEnable (did you mean ingressNginxEnabled?)"],
  ["webenabled", "webenabled (did you mean webEnabled?)"],
  ["Web", "Web (did you mean web?)"],
  ["globals", "globals (did you mean global?)"],
  ["db", "db"],
  ["certManager", "certManager"],
])("%s", (key, reported) => expect(describeUnknownKeys([key], KNOWN)).toEqual([reported]));
