import { describe, expect, test } from "vitest";

import { parseDocuments } from "../../../src/helm/index.ts";
import { createNamespaceAdder, withoutObjects } from "../../../src/helm/manifest/edit-manifest.ts";
import { listObjectRefs } from "../../../src/helm/manifest/manifest.ts";
import type { Resource } from "../../../src/kube/index.ts";

const A = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
const B = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: b\n";

describe("a manifest without some of its objects", () => {
  const a = { apiVersion: "v1", kind: "ConfigMap", name: "a", namespace: undefined };
  const b = { apiVersion: "v1", kind: "Secret", name: "b", namespace: undefined };
  const items = [A, B].map((text) => text.replaceAll("\n", "\n  ").replace(/^/, "- "));
  const list = `apiVersion: v1\nkind: List\nitems:\n${items.map((text) => `${text.trimEnd()}\n`).join("")}`;

  test("the rest stays to the letter", () => {
    const source = "# Source: m/templates/b.yaml\n";
    const manifest = `---\n# Source: m/templates/a.yaml\n${A}---\n${source}${B}`;
    expect(listObjectRefs(parseDocuments(manifest))).toEqual([a, b]);
    expect(withoutObjects(manifest, [a])).toBe(`---\n---\n${source}${B}`);
    expect(withoutObjects(manifest, [a, b]).trim()).toBe("---\n---");
    expect(withoutObjects(manifest, [{ ...a, namespace: "other" }])).toBe(manifest);
  });

  test("of a list only the objects go", () => {
    expect(listObjectRefs(parseDocuments(list))).toEqual([a, b]);
    expect(listObjectRefs(parseDocuments(withoutObjects(`---\n${list}`, [a])))).toEqual([b]);
    expect(listObjectRefs(parseDocuments(withoutObjects(list, [a, b])))).toEqual([]);
  });
});

describe("a manifest whose objects name their namespace", () => {
  const discovery = {
    resolve: (kind: string) => Promise.resolve({ namespaced: kind !== "ClusterRole" } as Resource),
  };
  const addNamespace = async (manifest: string): Promise<string> =>
    (await createNamespaceAdder(discovery, [manifest], "old"))(manifest);
  const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n";
  const placed = async (manifest: string): Promise<string[]> =>
    listObjectRefs(parseDocuments(await addNamespace(manifest))).map(
      ({ kind, namespace = "" }) => `${kind} ${namespace}`,
    );

  test("is changed only where it lacks them", async () => {
    const elsewhere = A.replace("  name: a", "  name: a\n  namespace: other");
    expect(await placed(`---\n${A}---\n${elsewhere}---\n${role}`)).toEqual([
      "ConfigMap old",
      "ConfigMap other",
      "ClusterRole ",
    ]);
    const complete = `---\n# Source: a.yaml\n${elsewhere}---\n${role}`;
    expect(await addNamespace(complete)).toBe(complete);
  });

  test("lists and texts that are no objects are kept", async () => {
    const list = JSON.stringify({
      apiVersion: "v1",
      kind: "List",
      items: [
        { apiVersion: "v1", kind: "Secret", metadata: { name: "s" } },
        { apiVersion: "v1", kind: "ClusterRole", metadata: { name: "r" } },
      ],
    });
    expect(await placed(`---\n${list}\n---\n# nothing\n`)).toEqual(["Secret old", "ClusterRole "]);
  });

  test("keeps numbers and texts as Go's YAML library reads them", async () => {
    const text = `---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nspec: {id: 1234567890123456789, text: "a\\L  b\\N"}\n`;
    expect(await addNamespace(text)).toBe(
      String.raw`---\n{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"old"},"spec":{"id":1234567890123456789,"text":"a\u2028  b\u0085"}}\n`.replaceAll(
        String.raw`\n`,
        "\n",
      ),
    );
  });
});
