/** Webhooks that convert: they run when the API server needs custom resources in another version (docs/reference/hooks.md, "Webhooks"). */

import type { ConversionBinding, JsonObject } from "../../base/model/index.ts";
import {
  ITEM_FIELDS,
  readCommonBinding,
  nonEmptyList,
  type BindingKind,
  type BindingReadOptions,
} from "./kind.ts";
import { STRING_SHAPE, objectShape, type ValueOf } from "./shape.ts";

const KEY = "kubernetesCustomResourceConversion";
const RULE = objectShape(
  { fromVersion: STRING_SHAPE, toVersion: STRING_SHAPE },
  { required: ["fromVersion", "toVersion"] },
);
const ITEM_SHAPE = objectShape(
  {
    name: STRING_SHAPE,
    crdName: STRING_SHAPE,
    conversions: { kind: "array", of: RULE, min: 1 },
    group: STRING_SHAPE,
    includeSnapshotsFrom: ITEM_FIELDS.includeSnapshotsFrom,
  },
  { required: ["name", "crdName", "conversions"] },
);
const CRD_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/;
const VERSION = /^(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

export const conversion: BindingKind<ConversionBinding> = {
  shapesByVersion: { v0: {}, v1: { [KEY]: nonEmptyList(ITEM_SHAPE) } },
  read,
};

/** Reads the conversion bindings of a configuration; complains about invalid names and repeated conversions. */
function read(config: JsonObject, { complain, queue }: BindingReadOptions): ConversionBinding[] {
  // The shape was checked before.
  const raw = (config[KEY] ?? []) as unknown as ValueOf<typeof ITEM_SHAPE>[];
  const declaredRules = new Set<string>();
  return raw.map(({ crdName, conversions, ...item }, index) => {
    const common = readCommonBinding(item, { key: KEY, index }, queue);
    const { id } = common;
    if (!CRD_NAME.test(crdName))
      complain(`${id}.crdName is invalid: "${crdName}" is no name such as crontabs.stable.example.com`);
    for (const [ruleIndex, { fromVersion, toVersion }] of conversions.entries()) {
      const path = `${id}.conversions[${ruleIndex}]`;
      for (const [field, version] of Object.entries({ fromVersion, toVersion }))
        if (!VERSION.test(version))
          complain(`${path}.${field} is invalid: "${version}" is neither "version" nor "group/version"`);
      if (fromVersion === toVersion) complain(`${path}: fromVersion and toVersion are the same`);
      const rule = `${crdName}: ${fromVersion} to ${toVersion}`;
      if (declaredRules.has(rule)) complain(`${path}: the conversion ${rule} is declared twice`);
      declaredRules.add(rule);
    }
    return { type: "conversion", ...common, crdName, conversions };
  });
}
