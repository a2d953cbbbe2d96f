/** Modules that require others, and what the cluster shows of them. */

import { cluster } from "./cluster.ts";
import type { Lab } from "./hook-files.ts";

interface AddonModule {
  readonly status?: {
    readonly state?: string;
    readonly requiresMet?: string;
    readonly requires?: readonly object[];
    readonly lastRun?: { readonly startedAt: string };
    readonly conditions?: readonly { type: string; status: string; reason: string; message: string }[];
  };
}

/** Undefined fields where there is none. */
export const of = (namespace: string, name: string): Promise<AddonModule> =>
  cluster().json<AddonModule>(["get", "addonmodule", name, "-n", namespace, "--ignore-not-found"]);

/** A condition in one line; `none` where it is not there. */
export async function condition(namespace: string, name: string, type: string): Promise<string> {
  const found = (await of(namespace, name)).status?.conditions?.find((each) => each.type === type);
  return found === undefined ? "none" : `${found.status} ${found.reason}: ${found.message}`;
}

/** Writes a module with a ConfigMap of its name. */
export function module(lab: Lab, dir: string, addonYaml = "{}"): void {
  const [, name = ""] = /^\d+-(.*)$/.exec(dir) ?? [];
  lab.file(`modules/${dir}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.5.0\n`);
  lab.file(`modules/${dir}/values.yaml`, `${name}Enabled: true\n`);
  lab.file(`modules/${dir}/addon.yaml`, addonYaml);
  lab.file(
    `modules/${dir}/templates/map.yaml`,
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {size: "{{ .Values.${name}.size }}"}\n`,
  );
}
