import { describe, expect, test } from "vitest";
import { restoreObjects } from "../../../src/helm/objects/restore-objects.ts";
import type { Reconciler } from "../../../src/helm/types.ts";
import type { ReleaseMeta } from "../../../src/helm/release/revisions.ts";
import { ApiError, CONFIG_MAPS, NAMESPACES, SECRETS } from "../../../src/kube/index.ts";
import type { ApiRequest, Resource } from "../../../src/kube/index.ts";

const KINDS: Readonly<Record<string, Resource>> = {
  ConfigMap: CONFIG_MAPS,
  Namespace: NAMESPACES,
  Secret: SECRETS,
};
const document = (kind: string, metadata: string): string =>
  `apiVersion: v1\nkind: ${kind}\nmetadata: {${metadata}}\n`;

/** A server in the hands of the test; `refuses` says what it thinks of a name. */
function lab(documents: readonly string[], applyMethod: "csa" | "ssa" = "csa") {
  const requests: ApiRequest[] = [];
  const server: { refuses: (name: string) => ApiError | undefined } = { refuses: () => undefined };
  const tools = {
    namespace: "home",
    store: {
      readManifests: () => Promise.resolve([documents.join("---\n"), document("Secret", "name: hook")]),
      readSummary: () => Promise.resolve({ applyMethod }),
    },
    discovery: { resolve: (kind: string) => Promise.resolve(KINDS[kind]) },
    client: {
      json: (request: ApiRequest) => {
        requests.push(request);
        const { metadata } = request.body as { metadata: { name: string } };
        const refusal = server.refuses(metadata.name);
        return refusal === undefined ? Promise.resolve({}) : Promise.reject(refusal);
      },
    },
  } as unknown as Reconciler;
  const controller = new AbortController();
  const restore = (...absent: readonly string[]): Promise<void> =>
    restoreObjects(tools, {
      release: { name: "m" } as ReleaseMeta,
      missingObjects: absent,
      signal: controller.signal,
    });
  return { requests, server, restore, controller };
}

const refusal = (status = 403, reason = "Forbidden"): ApiError =>
  new ApiError({ status, reason, message: "no" });
const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `c${index}`);

describe("restoreObjects", () => {
  test("creates as helm does without server-side apply, marked as helm marks", async () => {
    const { requests, restore } = lab([
      document("ConfigMap", "name: a, labels: {own: l}, annotations: {own: a}"),
      document("ConfigMap", "name: b"),
    ]);
    await restore("home/ConfigMap/a");
    expect(requests).toEqual([
      expect.objectContaining({
        method: "POST",
        path: "/api/v1/namespaces/home/configmaps",
        query: { fieldManager: "helm", fieldValidation: "Ignore" },
        body: {
          apiVersion: "v1",
          kind: "ConfigMap",
          metadata: {
            name: "a",
            labels: { own: "l", "app.kubernetes.io/managed-by": "Helm" },
            annotations: {
              own: "a",
              "meta.helm.sh/release-name": "m",
              "meta.helm.sh/release-namespace": "home",
            },
          },
        },
      }),
    ]);
  });

  test("applies on the server what helm applies there", async () => {
    const { requests, restore } = lab([document("ConfigMap", "name: a, namespace: other")], "ssa");
    await restore("other/ConfigMap/a");
    expect(requests).toEqual([
      expect.objectContaining({
        method: "PATCH",
        path: "/api/v1/namespaces/other/configmaps/a",
        contentType: "application/apply-patch+yaml",
        query: { fieldManager: "helm", fieldValidation: "Ignore", force: true },
      }),
    ]);
  });

  test("keeps helm's order of kinds, opens lists, and leaves helm hooks out", async () => {
    const { requests, restore } = lab([
      document("Namespace", "name: team"),
      document("Secret", 'name: passing, annotations: {"helm.sh/hook": pre-install}'),
      "apiVersion: v1\nkind: SecretList\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]\n",
      document("ConfigMap", 'name: kept, annotations: {"helm.sh/resource-policy": keep}'),
    ]);
    await restore(
      "home/ConfigMap/kept",
      "home/Secret/s",
      "home/Secret/passing",
      "home/Secret/hook",
      "Namespace/team",
    );
    expect(requests.map(({ path }) => path)).toEqual([
      "/api/v1/namespaces",
      "/api/v1/namespaces/home/secrets",
      "/api/v1/namespaces/home/configmaps",
    ]);
  });

  test("is content with what is back already", async () => {
    const { server, restore } = lab([document("ConfigMap", "name: a")]);
    server.refuses = () => refusal(409, "AlreadyExists");
    await restore("home/ConfigMap/a");
  });

  test("of a kind that is refused tries a few, goes on with the next kind, and reports in the end", async () => {
    const { requests, server, restore } = lab([
      ...names(300).map((name) => document("ConfigMap", `name: ${name}`)),
      document("Secret", "name: s"),
    ]);
    server.refuses = (name) => (name === "s" ? undefined : refusal());
    const absent = [...names(300).map((name) => `home/ConfigMap/${name}`), "home/Secret/s"];
    await expect(restore(...absent)).rejects.toThrow(
      "cannot bring back home/ConfigMap/c0: no; home/ConfigMap/c1: no; home/ConfigMap/c2: no",
    );
    expect(requests.length).toBeLessThanOrEqual(3 + 3 + 1);
    expect(requests.at(-1)?.path).toBe("/api/v1/namespaces/home/secrets");
  });

  test("brings back all others of a kind of which two are refused", async () => {
    const { requests, server, restore } = lab(
      names(30).map((name) => document("ConfigMap", `name: ${name}`)),
    );
    server.refuses = (name) => (name === "c0" || name === "c1" ? refusal() : undefined);
    const failure = restore(...names(30).map((name) => `home/ConfigMap/${name}`));
    await expect(failure).rejects.toThrow("c1: no");
    await expect(failure).rejects.toMatchObject({
      missingObjects: ["home/ConfigMap/c0", "home/ConfigMap/c1"],
    });
    expect(requests).toHaveLength(30);
  });

  test("reports of a kind that the server does not know", async () => {
    const { requests, restore } = lab([document("Thing", "name: t")]);
    await expect(restore("home/Thing/t")).rejects.toThrow(
      "cannot bring back home/Thing/t: the server knows no Thing of v1",
    );
    expect(requests).toEqual([]);
  });

  test("ends when it is cut short", async () => {
    const { requests, server, restore, controller } = lab(
      names(30).map((name) => document("ConfigMap", `name: ${name}`)),
    );
    server.refuses = () => {
      controller.abort(new Error("enough"));
      return refusal();
    };
    await expect(restore(...names(30).map((name) => `home/ConfigMap/${name}`))).rejects.toThrow("enough");
    expect(requests.length).toBeLessThanOrEqual(4);
  });
});
