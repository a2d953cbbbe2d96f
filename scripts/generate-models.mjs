// Writes the types and classes of both kinds from crds/ into src/report/models. A test compares the files with what the
// CRDs say.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { load } from "js-yaml";
import { format } from "oxfmt";
import { root } from "./setup/versions.mjs";

// Its ES modules import a directory, which Node refuses.
const require = createRequire(import.meta.url);
const { generateInterface } = require("@kubernetes-models/generate");

/** The generated files: where each one is, and the CRD that it is made from; objects of users need no class. */
export const models = [
  { crd: join(root, "crds", "addonmodules.yaml"), file: join(root, "src/report/models/addon-module.ts") },
  { crd: join(root, "crds", "addonoperators.yaml"), file: join(root, "src/report/models/addon-operator.ts") },
  {
    crd: join(root, "crds", "modulesources.yaml"),
    file: join(root, "src/report/models/module-source.ts"),
    isRead: true,
  },
];

/** The text of a generated file. */
export async function modelOf({ crd, file, isRead }) {
  const { printWidth } = JSON.parse(readFileSync(join(root, ".oxfmtrc.json"), "utf8"));
  const { code, errors } = await format(file, textOf(load(readFileSync(crd, "utf8")), isRead), {
    printWidth,
  });
  if (errors.length > 0) throw new Error(errors[0].message);
  return code;
}

function textOf({ spec: { group, names, versions } }, isRead) {
  const { kind } = names;
  const [version] = versions;
  const { properties } = version.schema.openAPIV3Schema;
  const members = Object.keys(properties).filter(
    (name) => !["apiVersion", "kind", "metadata"].includes(name),
  );
  const text = `/** The type and class of ${kind}, generated from crds/${names.plural}.yaml by scripts/generate-models.mjs. */

import { Model, type ModelData } from "@kubernetes-models/base";

import type { NamedMeta } from "../../kube/index.ts";
import type { Json } from "../../base/model/index.ts";

/** As data; its fields are explained in the CRD. */
export interface I${kind} ${interfaceOf(properties, { apiVersion: `${group}/${version.name}`, kind })}

/** As an object to be created. */
export class ${kind} extends Model<I${kind}> implements I${kind} {
  readonly apiVersion = "${group}/${version.name}";
  readonly kind = "${kind}";
  readonly metadata!: I${kind}["metadata"];
${members.map((name) => `  readonly ${name}?: NonNullable<I${kind}["${name}"]>;`).join("\n")}

  constructor(data: ModelData<I${kind}>) {
    super();
    this.setDefinedProps(data);
  }
}
`;
  const typed = text.includes(": Json") ? text : text.replace(/import type { Json }.*\n/, "");
  if (!isRead) return typed;
  return typed
    .slice(0, typed.indexOf("\n/** As an object to be created."))
    .replace(/import { Model.*\n\n/, "")
    .replace("The type and class", "The type");
}

function interfaceOf(properties, is) {
  const constants = Object.entries(is).map(([name, value]) => [name, { type: "string", enum: [value] }]);
  const schema = {
    type: "object",
    properties: { ...properties, ...Object.fromEntries(constants), metadata: { $ref: "NamedMeta" } },
    required: [...Object.keys(is), "metadata"],
  };
  return generateInterface(schema, { includeDescription: false, getRefType: (ref) => ref })
    .replaceAll(/^( *)"(\w+)"/gm, "$1readonly $2")
    .replaceAll("Array<string>", "readonly string[]")
    .replaceAll("Array<", "ReadonlyArray<")
    .replaceAll(": any;", ": Json;")
    .replaceAll(/: \{\s*\};/g, ": { readonly [key: string]: Json };");
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  for (const model of models) writeFileSync(model.file, await modelOf(model));
