import { describe, expect, test } from "vitest";

import { HelmError } from "../../src/helm/binary/helm-errors.ts";
import { isMissingAnswer } from "../../src/helm/binary/helm-messages.ts";
import { ChartPrefetcher } from "../../src/helm/chart-prefetcher.ts";
import { DownApiError } from "../../src/helm/down-apis.ts";
import type { HelmInput } from "../../src/helm/types.ts";
import { ApiError, ConnectionError } from "../../src/kube/index.ts";
import type { RunResult } from "../../src/base/process/index.ts";

const helmFailed = (stderr: string): HelmError => {
  const result: RunResult = {
    outcome: "failed",
    exitCode: 1,
    stdout: "",
    stdoutTruncated: false,
    stderr: `Error: ${stderr}\n`,
    durationMs: 1,
    message: stderr,
  };
  return new HelmError("upgrade web", result);
};
const answered = (status: number): ApiError => new ApiError({ status, reason: "x", message: "x" });

const NO_ANSWER: readonly (readonly [string, Error])[] = [
  [
    "the API server refuses connections",
    helmFailed("Get https://10.0.0.1: dial tcp 10.0.0.1:443: connect: connection refused"),
  ],
  [
    "a webhook does not answer",
    helmFailed('Internal error occurred: failed calling webhook "x": failed to call webhook: timeout'),
  ],
  [
    "an aggregated API is down",
    helmFailed("the server is currently unable to handle the request (get things)"),
  ],
  ["the credentials have expired", helmFailed("query: failed to query with labels: Unauthorized")],
  ["etcd is away", helmFailed("etcdserver: request timed out")],
  ["a connection is cut", helmFailed("Post https://x/apis: EOF")],
  ["a name server fails", helmFailed("lookup api on 10.0.0.10:53: server misbehaving")],
  ["a packet is lost", helmFailed("read tcp 10.0.0.2:4->10.0.0.1:443: read: connection timed out")],
  ["500", helmFailed('an error on the server ("x") has prevented the request from succeeding')],
  ["a plugin of the API server fails", helmFailed("Internal error occurred: quota evaluation timed out")],
  [
    "504",
    helmFailed(
      "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
  ],
  [
    "a time limit of the API server",
    helmFailed("Timeout: request did not complete within requested timeout"),
  ],
  ["503", answered(503)],
  ["429", answered(429)],
  ["no connection", new ConnectionError("ECONNREFUSED", "cut")],
  ["a question has no answer", new Error("cannot determine the owner", { cause: answered(503) })],
];
const EVIDENCE: readonly (readonly [string, Error])[] = [
  ["an object is refused", helmFailed('Deployment.apps "web" is invalid: spec.selector: field is immutable')],
  ["a webhook denies", helmFailed('admission webhook "x" denied the request: no')],
  ["a hook of the chart fails", helmFailed("post-upgrade hooks failed: job failed: BackoffLimitExceeded")],
  [
    "objects do not become ready",
    helmFailed("resource Deployment/ops/web not ready. status: InProgress\ncontext deadline exceeded"),
  ],
  ["a template fails", helmFailed("execution error at (web/templates/x.yaml:1:3): host is required")],
  ["a right is missing", answered(403)],
  ["a question is refused", new Error("cannot determine the owner", { cause: answered(403) })],
  ["another error", new Error("x")],
];

test.each(NO_ANSWER)("no evidence that a chart is broken: %s", (_, error) => {
  expect(isMissingAnswer(error)).toBe(true);
});

test.each(EVIDENCE)("evidence: %s", (_, error) => {
  expect(isMissingAnswer(error)).toBe(false);
});

describe("the modules that are going to apply objects, before others are deleted", () => {
  const find = (error: Error): Promise<ReadonlyMap<string, string>> => {
    const toolsOf = (): never => {
      throw error;
    };
    const module = { name: "web", readInput: () => ({}) as HelmInput, hasFinalValues: true };
    const tools = { toolsOf, store: { get: () => undefined } } as never;
    return new ChartPrefetcher(tools, [module], false).findPendingOwners();
  };

  test.each([
    ...NO_ANSWER,
    ["the chart depends on an API that is down", new DownApiError(["a/v1"], ["x"])] as const,
  ])("are unknown, so that nothing is deleted, if %s", async (_, error) => {
    await expect(find(error)).rejects.toBe(error);
  });

  test.each(EVIDENCE)("are none with a chart that cannot be rendered: %s", async (_, error) => {
    expect(await find(error)).toEqual(new Map());
  });
});
