import { beforeEach, describe, expect, test } from "vitest";

import { ExistingObjectsError, HelmError } from "../../../src/helm/index.ts";
import type { Reconciliation } from "../../../src/helm/types.ts";
import { helmSays } from "../../../src/helm/binary/helm-messages.ts";
import { adoptExistingObjects } from "../../../src/helm/objects/takeover.ts";
import { listContent, parseDocuments, parseObjectRef } from "../../../src/helm/manifest/manifest.ts";
import { ApiError, CONFIG_MAPS, SECRETS } from "../../../src/kube/index.ts";
import type { ApiRequest } from "../../../src/kube/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";
import type { RunResult } from "../../../src/base/process/index.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";

// docs/guides/running.md, "Taking over".

const OWNER = "meta.helm.sh/release-name";
const SPACE = "meta.helm.sh/release-namespace";
const HELM = { "app.kubernetes.io/managed-by": "Helm" };
const manifest = (name: string, more = ""): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}${more}}\n`;
const taken = new HelmError("upgrade m", {
  stderr: "Error: ConfigMap exists and cannot be imported into the current release",
} as RunResult);

describe("existing objects of a chart", () => {
  /** Metadata of what the server has, by name. */
  let served: Map<string, JsonObject>;
  let patches: Record<string, JsonObject>;
  let logged: LoggedLine[];
  let events: string[][];

  beforeEach(() => {
    served = new Map();
    patches = {};
    logged = [];
    events = [];
  });

  const put = (name: string, owner?: string, more: JsonObject = {}): void => {
    const [namespace, release] = owner?.split("/") ?? [];
    const annotations = owner === undefined ? {} : { [OWNER]: release, [SPACE]: namespace };
    served.set(name, { name, uid: `uid-${name}`, labels: HELM, annotations, ...more } as JsonObject);
  };

  function claim(
    chart: readonly string[],
    terms: { takeOwnership?: boolean; confirmed?: string; recorded?: readonly string[] } = {},
  ): Promise<void> {
    const { takeOwnership, confirmed: confirmedTakeover, recorded = [] } = terms;
    const tools = {
      namespace: "home",
      operator: { namespace: "home" },
      store: { namespaceOf: () => "home" },
      isOurs: (release: string) => release === "m" || release === "ours",
      keepsObjects: () => false,
      logger: keepLog(logged),
      report: { tookOver: (_: string, objects: readonly string[]) => void events.push([...objects]) },
      discovery: { resolve: (kind: string) => Promise.resolve(kind === "Secret" ? SECRETS : CONFIG_MAPS) },
      client: {
        json: ({ path, method = "GET", body }: ApiRequest) => {
          const name = path.slice(path.lastIndexOf("/") + 1);
          const metadata = served.get(name);
          if (metadata === undefined)
            return Promise.reject(new ApiError({ status: 404, reason: "NotFound", message: "no" }));
          if (method === "PATCH") patches[name] = (body as { metadata: JsonObject }).metadata;
          return Promise.resolve({ metadata });
        },
      },
    };
    const module = { name: "m", helm: { takeOwnership } };
    const request = { module, values: "{}", confirmedTakeover, signal: new AbortController().signal };
    const reconciliation = { tools, request } as unknown as Reconciliation;
    const refs = recorded.flatMap(
      (name) => parseObjectRef({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } }) ?? [],
    );
    const content = listContent(parseDocuments(chart.join("---\n")));
    return adoptExistingObjects(reconciliation, content, { recorded: refs, refusal: taken });
  }

  const refusal = async (
    ...args: Parameters<typeof claim>
  ): Promise<{ message: string; token: string | undefined }> => {
    const { message } = await claim(...args).then(
      () => expect.unreachable("it was taken over"),
      (error: Error) => {
        expect(error).toBeInstanceOf(ExistingObjectsError);
        const { question } = error as ExistingObjectsError;
        expect(error.message).toContain(question.command);
        expect(question.command).toMatch(new RegExp(`${question.annotation}=${question.token}$`));
        return error;
      },
    );
    return { message, token: /confirm-takeover=(\w+)/.exec(message)?.[1] };
  };

  test("those of no release and of another one are named with the remedy, and nothing is written", async () => {
    put("mine", "home/m");
    put("moved", "home/ours");
    put("hand", undefined, { labels: {} });
    put("theirs", "other/m");
    const { message } = await refusal(
      ["mine", "moved", "hand", "theirs", "new"].map((name) => manifest(name)),
    );
    expect(message).toContain("ConfigMap/hand of no release, ConfigMap/theirs of other/m;");
    expect(message).toContain("helm.takeOwnership in addon.yaml");
    expect(message).toMatch(
      /kubectl annotate --overwrite -n home addonmodule\/m addon-operator\.io\/confirm-takeover=\w{12}$/,
    );
    expect(patches).toEqual({});
    expect(events).toEqual([]);
  });

  test("a confirmation takes over exactly what it names; the objects are marked and kept", async () => {
    put("hand", undefined, { labels: {} });
    put("moved", "home/ours");
    const chart = ["hand", "moved"].map((name) => manifest(name));
    const { token } = await refusal(chart);
    await claim(chart, { confirmed: token ?? "" });
    const marks = { [OWNER]: "m", [SPACE]: "home" };
    expect(patches).toEqual({
      hand: { uid: "uid-hand", labels: HELM, annotations: { ...marks, "helm.sh/resource-policy": "keep" } },
      moved: { uid: "uid-moved", labels: HELM, annotations: marks },
    });
    expect(events).toEqual([["ConfigMap/hand of no release", "ConfigMap/moved of home/ours"]]);
  });

  test("an object that was made again, or one more, needs another confirmation, which says that the old one is stale", async () => {
    put("hand");
    const { token } = await refusal([manifest("hand")]);
    put("hand", undefined, { uid: "again" });
    const again = await refusal([manifest("hand")], { confirmed: token ?? "" });
    expect(again.token).not.toBe(token);
    expect(again.message).toMatch(new RegExp(`; ${token} does not confirm this$`));
    put("more");
    const more = await refusal([manifest("hand"), manifest("more")], { confirmed: again.token ?? "" });
    expect(more.token).not.toBe(again.token);
    expect(patches).toEqual({});
  });

  test("a confirmation is used up by the takeover: what its owner takes back needs another", async () => {
    put("hand", undefined, { resourceVersion: "1" });
    const { token } = await refusal([manifest("hand")]);
    // The release's marks were set and removed again.
    put("hand", undefined, { resourceVersion: "3" });
    const { message } = await refusal([manifest("hand")], { confirmed: token ?? "" });
    expect(message).toMatch(new RegExp(`; ${token} does not confirm this$`));
    expect(patches).toEqual({});
  });

  test("addon.yaml allows it for good", async () => {
    put("hand", "other/theirs");
    await claim([manifest("hand")], { takeOwnership: true });
    expect(patches["hand"]).toMatchObject({ annotations: { "helm.sh/resource-policy": "keep" } });
    expect(logged.map(([level, message]) => [level, message])).toEqual([
      ["warn", "Existing objects are adopted, and retained when the module is removed"],
    ]);
  });

  test("a release of this operator hands its objects over without a question", async () => {
    put("moved", "home/ours");
    await claim([manifest("moved")]);
    expect(patches["moved"]).toEqual({
      uid: "uid-moved",
      labels: HELM,
      annotations: { [OWNER]: "m", [SPACE]: "home" },
    });
    expect(events).toEqual([["ConfigMap/moved of home/ours"]]);
  });

  test("what the release has already, and helm's hooks, are no question", async () => {
    put("recorded");
    put("hook");
    const chart = [manifest("recorded"), manifest("hook", ", annotations: {helm.sh/hook: pre-install}")];
    await expect(claim(chart, { recorded: ["recorded"] })).rejects.toBe(taken);
  });

  test("of many, as many are named as leave space for the remedy", async () => {
    const names = Array.from({ length: 40 }, (_, index) => `a-config-map-with-a-long-name-${index}`);
    for (const name of names) put(name);
    const { message } = await refusal(names.map((name) => manifest(name)));
    expect(message).toMatch(/ and 3\d more; remove them/);
    expect(message.length).toBeLessThan(500);
    expect(logged[0]?.[2]).toMatchObject({
      objects: expect.arrayContaining(["ConfigMap/a-config-map-with-a-long-name-15 of no release"]),
    });
  });
});

test("only helm's refusal to import objects is such a question", () => {
  expect(helmSays(taken, "existingObject")).toBe(true);
  expect(
    helmSays(new HelmError("upgrade m", { stderr: "Error: other" } as RunResult), "existingObject"),
  ).toBe(false);
});
