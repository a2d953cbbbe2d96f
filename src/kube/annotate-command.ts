/** Builds the command that users copy to annotate an object. */

/** Builds the command `kubectl annotate --overwrite -n ops addonmodule/web KEY=VALUE`. `object` is kind and name. */
export function annotateCommand(
  object: string,
  namespace: string,
  annotations: Readonly<Record<string, string>>,
): string {
  const pairs = Object.entries(annotations).map(([key, value]) => `${key}=${value}`);
  return `kubectl annotate --overwrite -n ${namespace} ${object} ${pairs.join(" ")}`;
}
