import { expect, it } from "vitest";

import { hideQuotedValues } from "../../../src/base/index.ts";

const TYPED = "failed to create typed patch object (ns/db; /v1, Kind=Secret)";
const KEYS = "[data[tls.crt]: Required value, data[tls.key]: Required value]";

it.each([
  [
    `${TYPED}: .stringData.pin: expected string, got &value.valueUnstructured{Value:4711}`,
    `${TYPED}: .stringData.pin: expected string, got (hidden)`,
  ],
  [
    `${TYPED}: .stringData.pin: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"in":"4711"}}`,
    `${TYPED}: .stringData.pin: expected string, got (hidden)`,
  ],
  [
    `${TYPED}: .stringData: expected map, got &{[47 11]}`,
    `${TYPED}: .stringData: expected map, got (hidden)`,
  ],
  [`${TYPED}: expected map, got &{4711 is cut`, `${TYPED}: expected map, got (hidden)`],
  ['data[pin]: Invalid value: "47\\"11": too short', "data[pin]: Invalid value: (hidden): too short"],
  ["data[pin]: Invalid value: 4711: too short", "data[pin]: Invalid value: (hidden): too short"],
  [
    'Secret "db" is invalid: type: Unsupported value: "4711"',
    'Secret "db" is invalid: type: Unsupported value: (hidden)',
  ],
  [`Secret "db" is invalid: ${KEYS}`, `Secret "db" is invalid: ${KEYS}`],
  [
    'admission webhook "x" denied the request: {"pin": "4711"} is bad',
    'admission webhook "x" denied the request: (hidden) is bad',
  ],
  ['secrets "db" not found', 'secrets "db" not found'],
])("%s", (message, displayed) => expect(hideQuotedValues(message)).toBe(displayed));
