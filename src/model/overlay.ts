/** The operator's own object for configuration that hooks write, so that users' ConfigMap stays unchanged. */
export interface Overlay {
  readonly kind: "ConfigMap" | "Secret";
  readonly name: string;
}

const KINDS: Readonly<Record<string, Overlay["kind"]>> = { configmap: "ConfigMap", secret: "Secret" };
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Reads `NAME`, `configmap/NAME` or `secret/NAME`; undefined when it is none of these. */
export function parseOverlay(text: string): Overlay | undefined {
  const slash = text.indexOf("/");
  const kind = slash < 0 ? "ConfigMap" : KINDS[text.slice(0, slash)];
  const name = text.slice(slash + 1);
  return kind !== undefined && NAME.test(name) ? { kind, name } : undefined;
}

/** Kind and name for messages, e.g. `Secret addon-operator-state`. */
export function describeOverlay({ kind, name }: Overlay): string {
  return `${kind} ${name}`;
}
