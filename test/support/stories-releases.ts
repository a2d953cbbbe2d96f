import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { helmUnderTest } from "./cluster.ts";
import { pictureOf } from "./final-state.ts";
import { ACTS } from "./scene-story.ts";
import { base, converge } from "./scene-addons.ts";
import type { PageState } from "./scene.ts";
import { crdOfThings } from "./crds.ts";
import { hasBoth } from "./story.ts";
import type { Story } from "./story.ts";

const CRD_GROUP = (pageState: PageState): string => `${pageState.namespace}.example.com`;

function writeCrd(pageState: PageState, field: string): void {
  const group = CRD_GROUP(pageState);
  const schema = { type: "object", properties: { [field]: { type: "string" } } };
  const version = { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } };
  const crd = crdOfThings(group, [version]);
  pageState.file("modules/030-base/crds/things.yaml", JSON.stringify(crd));
}

/** Releases and objects in the namespace to which a story moves a release. */
async function lookAtMoved(pageState: PageState): Promise<unknown> {
  const namespace = `${pageState.namespace}-moved`;
  const { releases, objects, unfinished } = await pictureOf({ ...pageState, namespace });
  return { releases, objects, unfinished };
}

const run = promisify(execFile);

/** Releases of a person: one with the name of a module, and one that owns an object of a module's chart. */
async function installByHand({ cluster, dir, file, namespace }: PageState): Promise<void> {
  const chart = async (release: string, maps: readonly string[]): Promise<void> => {
    file(`by-hand/${release}/Chart.yaml`, "apiVersion: v2\nname: any\nversion: 1.0.0\n");
    for (const name of maps) {
      const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { by: "hand" } };
      file(`by-hand/${release}/templates/${name}.yaml`, JSON.stringify(map));
    }
    const target = ["-n", namespace, "--kubeconfig", cluster.kubeconfig];
    await run(helmUnderTest(), ["install", release, join(dir, "by-hand", release), ...target]);
  };
  await chart("app", ["app", "no-longer-in-the-chart"]);
  await chart("theirs", ["base", "theirs"]);
  file("modules/030-base/addon.yaml", "helm: {takeOwnership: true}\n");
}

/** To whom an object belongs that a module has taken over. */
async function lookAtOwner({ cluster, namespace }: PageState): Promise<unknown> {
  const { metadata } = await cluster.json<{ metadata: { annotations?: object } }>([
    "get",
    "configmap",
    "base",
    "-n",
    namespace,
  ]);
  return metadata.annotations;
}

/** What becomes of releases, in the order of a module's life. Each leaves a state that does not depend on the order of independent writes. */
export const RELEASE_STORIES: readonly Story[] = [
  { name: "install", isShort: true, takesLease: true, isOver: hasBoth },
  {
    name: "takeover",
    takesLease: true,
    furnish: installByHand,
    look: lookAtOwner,
    isOver: hasBoth,
  },
  {
    name: "upgrade",
    isShort: true,
    act: ACTS.upgrade,
    isOver: (state) => hasBoth(state) && state.includes('"size":"2"'),
  },
  {
    name: "delete",
    isShort: true,
    act: ACTS.delete,
    isOver: (state) => state.includes('"AddonModule app":"Disabled Current"'),
  },
  { name: "purge", act: ACTS.purge, isOver: (state) => !state.includes('"app":"deployed') },
  {
    name: "rollback",
    args: ["--on-failure=rollback"],
    furnish: (pageState) => {
      base(pageState);
      const name = '{{ .Values.base.other | default "other" }}';
      pageState.file(
        "modules/030-base/templates/other.yaml",
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`,
      );
    },
    act: (pageState) => pageState.configure({ base: "size: 5\nother: IN.VALID_NAME\n" }),
    isOver: (state) => !state.includes('"AddonModule base":"Ready Current"'),
  },
  {
    name: "crd",
    furnish: (pageState) => writeCrd(pageState, "before"),
    act: async (pageState) => {
      writeCrd(pageState, "after");
      await converge(pageState);
    },
    look: async (pageState) => {
      const name = `things.${CRD_GROUP(pageState)}`;
      const crd = await pageState.cluster.json<{ spec: { versions: { schema: unknown }[] } }>([
        "get",
        "crd",
        name,
      ]);
      return crd.spec.versions.map(({ schema }) => schema);
    },
    isOver: (state) => state.includes('"after"'),
  },
  {
    name: "move",
    act: async (pageState) => {
      pageState.file("modules/030-base/addon.yaml", `namespace: ${pageState.namespace}-moved\n`);
      await converge(pageState);
    },
    look: lookAtMoved,
    isOver: (state) => state.includes('{"releases":{"base":"deployed inputs managed-by"}'),
  },
];
