/** Secrets and ConfigMaps that hold values (docs/reference/addon-yaml.md, "Keys"). */

/** A Secret or ConfigMap, and where its content belongs in a section. */
export interface ValuesSource {
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
  /** Default: the operator's namespace. */
  readonly namespace?: string;
  /** Key of its data; default `values.yaml`. */
  readonly key?: string;
  /** JSON pointer in the section where the text is placed as a string; without it, the text is a YAML map of the section. */
  readonly path?: string;
  /** True: the module runs without it while it does not exist. */
  readonly optional?: boolean;
}
