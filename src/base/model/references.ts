/** Objects of the cluster that settings and `addon.yaml` name: accounts, the overlay (an object for configuration by hooks), values sources. */

/** A ServiceAccount that the operator impersonates for a module (docs/guides/tenancy.md). */
export interface Account {
  readonly namespace: string;
  readonly name: string;
}

/** The account that `serviceAccountName` of `addon.yaml` names: `NAME`, in `defaultNamespace`, or `NAMESPACE/NAME`. */
export function parseAccount(serviceAccountName: string, defaultNamespace: string): Account {
  const [name = "", namespace = defaultNamespace] = serviceAccountName.split("/").reverse();
  return { namespace, name };
}

/** The user name under which the API server knows a ServiceAccount, for impersonation. */
export function userOf({ namespace, name }: Account): string {
  return `system:serviceaccount:${namespace}:${name}`;
}

/** The account for messages. */
export function describeAccount({ namespace, name }: Account): string {
  return `ServiceAccount ${namespace}/${name}`;
}

/** The operator's own object for configuration that hooks write, so that users' ConfigMap stays unchanged. */
export interface Overlay {
  readonly kind: "ConfigMap" | "Secret";
  readonly name: string;
}

const OVERLAY_KINDS: Readonly<Record<string, Overlay["kind"]>> = { configmap: "ConfigMap", secret: "Secret" };
const OVERLAY_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Reads the setting for the overlay, `NAME`, `configmap/NAME` or `secret/NAME`; undefined when it is none of these. */
export function parseOverlay(text: string): Overlay | undefined {
  const slash = text.indexOf("/");
  const kind = slash < 0 ? "ConfigMap" : OVERLAY_KINDS[text.slice(0, slash)];
  const name = text.slice(slash + 1);
  return kind !== undefined && OVERLAY_NAME.test(name) ? { kind, name } : undefined;
}

/** Kind and name for messages, e.g. `Secret addon-operator-state`. */
export function describeOverlay({ kind, name }: Overlay): string {
  return `${kind} ${name}`;
}

/** A Secret or ConfigMap with values, and where they belong in a section (docs/reference/addon-yaml.md, "Keys"). */
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
