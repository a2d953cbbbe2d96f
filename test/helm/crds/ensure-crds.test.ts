import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { applyOwnCrds, checkCrdFiles, ensureCrds } from "../../../src/helm/index.ts";
import type { CrdTools } from "../../../src/helm/crds/crd.ts";
import { findOwnCrd } from "../../../src/helm/crds/read-crds.ts";
import { ApiError, connect, type KubeClient } from "../../../src/kube/index.ts";
import { parseYaml, Scope, silentLogger } from "../../../src/base/index.ts";
import type { Clock } from "../../../src/base/index.ts";
import { objectOf, ProblemError } from "../../../src/base/model/index.ts";
import { FakeApi, status } from "../../support/fake-api.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";
import { until } from "../../support/until.ts";

// docs/reference/modules.md, "The chart": when the kinds of a CRD count as there.

/** Time passes where it is waited for, and nowhere else. */
class WaitingClock implements Clock {
  #now = 0;
  now = (): number => this.#now;
  monotonic = (): number => this.#now;
  setTimer(ms: number, fn: () => void): { cancel: () => void } {
    const immediate = setImmediate(() => {
      this.#now += ms;
      fn();
    });
    return { cancel: () => clearImmediate(immediate) };
  }
}

const NAME = "things.example.org";
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD = `${CRDS}/${NAME}`;
const THINGS = "/apis/example.org/v1/things";
const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: NAME },
  spec: { group: "example.org", names: { plural: "things" }, versions: [{ name: "v1", served: true }] },
};
const withCondition = (type: string, value: string, message = ""): { json: unknown } => ({
  json: { ...definition, status: { conditions: [{ type, status: value, message }] } },
});

let api: FakeApi;
let client: KubeClient;
let clock: WaitingClock;
let file: string;
let dropped: ReadonlyMap<string, readonly string[]>[];
let ensure: (more?: Pick<CrdTools, "labels"> & { files?: string[] }) => Promise<string[]>;
beforeEach(async () => {
  api = await FakeApi.start();
  clock = new WaitingClock();
  const dir = mkdtempSync(join(tmpdir(), "crds-"));
  file = join(dir, "crd.yaml");
  writeFileSync(file, JSON.stringify(definition));
  client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  dropped = [];
  ensure = ({ files = [file], ...more } = {}) =>
    ensureCrds(files, { client, clock, onDropped: (found) => void dropped.push(found), ...more });
  onTestFinished(async () => {
    await client.close();
    await api.close();
    rmSync(dir, { recursive: true });
  });
  api.on(`PATCH ${CRD}`, { json: definition });
});

/** Established and served after so much time. */
function slowServer(ms: number): void {
  const late = (): boolean => clock.monotonic() < ms;
  api.on(`GET ${CRD}`, () => withCondition("Established", late() ? "False" : "True"));
  api.on(`GET ${THINGS}`, () => (late() ? status(404, "NotFound") : { json: { items: [] } }));
}

describe("CRDs", () => {
  test("get the labels of the settings over their own", async () => {
    slowServer(0);
    writeFileSync(
      file,
      JSON.stringify({ ...definition, metadata: { name: NAME, labels: { a: "b", c: "d" } } }),
    );
    await ensure({ labels: { c: "e", team: "core" } });
    const body = api.requests.find(({ method }) => method === "PATCH")?.body ?? "";
    const labels = { a: "b", c: "e", team: "core" };
    expect(JSON.parse(body)).toMatchObject({ metadata: { name: NAME, labels } });
  });

  test("of the operator are applied again after an error, which is logged once", async () => {
    const applied = new Map<string, object>();
    for (const plural of ["addonmodules", "addonoperators"]) {
      const path = `${CRDS}/${plural}.addon-operator.io`;
      api.on(`GET ${path}`, () => {
        const json = applied.get(plural);
        return json === undefined ? status(404, "NotFound") : { json };
      });
      api.on(`PATCH ${path}`, ({ body }) => {
        // The third try.
        if (clock.monotonic() < 3000) return status(500, "InternalError");
        const conditions = [{ type: "Established", status: "True" }];
        const json = { ...objectOf(parseYaml(body, plural).value), status: { conditions } };
        applied.set(plural, json);
        return { json };
      });
      api.on(`GET /apis/addon-operator.io/v1alpha1/${plural}`, { json: { items: [] } });
    }
    const lines: LoggedLine[] = [];
    const scope = new Scope();
    onTestFinished(() => scope.close());
    await applyOwnCrds({ client, clock, logger: keepLog(lines), scope, settings: { sources: false } });
    expect(lines).toHaveLength(1);
    await until(() => applied.size === 2);
    expect(lines).toHaveLength(1);
  });

  test("of a busy API server are waited for, without reading large definitions all the time", async () => {
    slowServer(45_000);
    expect(await ensure()).toEqual([NAME]);
    expect(clock.monotonic()).toBeGreaterThanOrEqual(45_000);
    expect(api.count(`GET ${CRD}`)).toBeLessThan(60);
  });

  test("are applied a few at a time, so that a busy API server answers in time", async () => {
    slowServer(0);
    let [pending, most] = [0, 0];
    api.on(`PATCH ${CRD}`, async () => {
      most = Math.max(most, ++pending);
      await new Promise((resume) => void setTimeout(resume, 10));
      pending--;
      return { json: definition };
    });
    await ensure({ files: Array.from({ length: 20 }, () => file) });
    expect(api.count(`PATCH ${CRD}`)).toBe(20);
    expect(most).toBeLessThanOrEqual(4);
  });

  test("that are served soon are noticed soon", async () => {
    slowServer(200);
    await ensure();
    expect(clock.monotonic()).toBeLessThan(400);
  });

  test("that are not served within a minute fail, to be tried again", async () => {
    slowServer(Infinity);
    await expect(ensure()).rejects.toThrow(`CRD ${NAME} is not served after 60s`);
  });

  test("whose names are taken fail at once, with what the server says", async () => {
    api.on(`GET ${CRD}`, withCondition("NamesAccepted", "False", '"Thing" is already in use'));
    await expect(ensure()).rejects.toThrow(
      `CRD ${NAME}: its names are not accepted: "Thing" is already in use`,
    );
    expect(clock.monotonic()).toBeLessThan(100);
  });

  describe("that are refused", () => {
    const other = { ...definition, metadata: { name: "others.example.org" } };
    const OTHER = CRD.replace("things", "others");
    const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" } };
    const put = (...documents: readonly unknown[]): void =>
      writeFileSync(file, documents.map((each) => JSON.stringify(each)).join("\n---\n"));
    beforeEach(() => {
      slowServer(0);
      api.on(`PATCH ${OTHER}`, { json: other });
      api.on(`GET ${OTHER}`, {
        json: { ...other, status: { conditions: [{ type: "Established", status: "True" }] } },
      });
    });

    test("are named one by one; other documents of the file are applied, empty ones are skipped", async () => {
      put(settings, definition, null, other);
      writeFileSync(file, `# only a comment\n---\n${readFileSync(file, "utf8")}\n---\n# end\n---\n`);
      api.on(`PATCH ${CRD}`, status(422, "Invalid", { message: "spec.versions[1].schema: Required value" }));
      const problems = await ensure().then(
        () => [],
        (error: unknown) => (error instanceof ProblemError ? error.problems : []),
      );
      expect(problems).toMatchObject([
        {
          file,
          key: "v1 ConfigMap settings",
          message: expect.stringMatching(/is no CustomResource/) as string,
        },
        {
          file,
          message: `the API server refuses CRD ${NAME}: spec.versions[1].schema: Required value`,
          remedy: "correct the definition, then request a converge",
        },
      ]);
      expect(api.count(`PATCH ${OTHER}`)).toBe(1);
      expect(api.count(`GET ${OTHER}`)).toBeGreaterThan(0);
    });

    const untyped = `failed to create typed patch object (/${NAME}): .spec.versions: duplicate entries for key`;
    const right = `customresourcedefinitions.apiextensions.k8s.io "${NAME}" is forbidden: User "op" cannot patch resource "customresourcedefinitions" in API group "apiextensions.k8s.io" at the cluster scope`;
    test.each([
      ["400", status(400, "BadRequest"), true],
      ["413", status(413, "RequestEntityTooLarge"), true],
      ["422", status(422, "Invalid"), true],
      ["500 for an object that does not fit its type", status(500, "Internal", { message: untyped }), true],
      [
        "403 by admission",
        status(403, "Forbidden", { message: "admission webhook denied the request" }),
        true,
      ],
      ["403 for a missing right", status(403, "Forbidden", { message: right }), false],
      ["409", status(409, "Conflict"), false],
      ["500", status(500, "InternalError", { message: "etcdserver: request timed out" }), false],
    ])("by status %s: are they a matter for a person?", async (_, answer, isForPerson) => {
      api.on(`PATCH ${CRD}`, answer);
      const error: unknown = await ensure().catch((failure: unknown) => failure);
      expect(error).toBeInstanceOf(isForPerson ? ProblemError : ApiError);
    });
  });

  test("of which no version is served are not waited for", async () => {
    const spec = { ...definition.spec, versions: [{ name: "v1", served: false }] };
    api.on(`PATCH ${CRD}`, {
      json: { ...definition, spec, status: { conditions: [{ type: "Established", status: "True" }] } },
    });
    expect(await ensure()).toEqual([NAME]);
  });

  test("are applied without unknown fields and without what the server writes, and the fields are named once", async () => {
    slowServer(0);
    const metadata = { name: NAME, uid: "u", resourceVersion: "7", managedFields: [{}], labels: { a: "b" } };
    const recorded = {
      ...definition,
      metadata,
      "x-a": 1,
      status: {},
      spec: { ...definition.spec, "x-b": 1, "x-a": 2 },
    };
    writeFileSync(file, JSON.stringify(recorded));
    await ensure();
    const body = api.requests.find(({ method }) => method === "PATCH")?.body ?? "";
    expect(JSON.parse(body)).toEqual({ ...definition, metadata: { name: NAME, labels: { a: "b" } } });
    expect(dropped).toEqual([new Map([[file, ["x-a", "x-b"]]])]);
  });
});

test.each([17_000_000, 20 * 2 ** 30])(
  "a file of %s bytes is not read, and the others are applied",
  async (size) => {
    slowServer(0);
    const large = join(dirname(file), "large.yaml");
    writeFileSync(large, "");
    truncateSync(large, size);
    const problem = {
      file: large,
      message: `has ${size} bytes, but a file in crds/ has a limit of 16 MiB`,
      remedy: "split the file, or remove it",
    };
    await expect(ensure({ files: [large, file] })).rejects.toEqual(new ProblemError(problem));
    expect(api.requests.filter(({ method }) => method === "PATCH")).toHaveLength(1);
    expect((await checkCrdFiles([large, file])).problems).toEqual([problem]);
  },
);

test("a document of more than 3 MiB is not parsed, and the others of its file are applied", async () => {
  slowServer(0);
  appendFileSync(file, `\n---\n${"[1, 1]\n".repeat(2 ** 19)}`);
  const problem = {
    file,
    key: "document 2",
    message: "is larger than 3 MiB, which the API server refuses",
    remedy: "shorten it, e.g. its descriptions",
  };
  await expect(ensure()).rejects.toEqual(new ProblemError(problem));
  expect(api.requests.filter(({ method }) => method === "PATCH")).toHaveLength(1);
});

test("a definition of the operator is found among the objects of a chart, other definitions and kinds are not", () => {
  const kind = "CustomResourceDefinition";
  const name = "modulesources.addon-operator.io";
  expect(
    findOwnCrd(
      [
        { kind, name: "things.example.org" },
        { kind: "ConfigMap", name },
      ],
      "chart",
    ),
  ).toBeUndefined();
  expect(findOwnCrd([{ kind, name }], "chart")).toMatchObject({
    file: "chart",
    key: `CustomResourceDefinition ${name}`,
    message: "is a definition of the operator itself, which no module may replace",
  });
});

test.each(["addonmodules", "addonoperators", "modulesources"])(
  "a module cannot replace the operator's own %s",
  async (plural) => {
    const own = { ...definition, metadata: { name: `${plural}.addon-operator.io` } };
    writeFileSync(file, JSON.stringify(own));
    await expect(ensure()).rejects.toThrow(
      `${file}: CustomResourceDefinition ${plural}.addon-operator.io: is a definition of the operator itself, which no module may replace (remove it`,
    );
    expect(api.requests).toEqual([]);
  },
);
