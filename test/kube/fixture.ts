import { onTestFinished } from "vitest";

import type { ConnectOptions, KubeClient } from "../../src/kube/index.ts";
import { connect } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { ManualClock } from "../support/clock.ts";
import { FakeApi } from "../support/fake-api.ts";

/** A fake API server, a client to it and the clock of both; closed when the test ends. */
export async function fake(
  options: Partial<ConnectOptions> = {},
): Promise<{ api: FakeApi; client: KubeClient; clock: ManualClock }> {
  const api = await FakeApi.start();
  const clock = new ManualClock();
  const settings = { userAgent: "test", logger: silentLogger, clock, kubeConfig: api.kubeconfig() };
  const client = connect({ ...settings, ...options });
  onTestFinished(async () => {
    await client.close();
    await api.close();
  });
  return { api, client, clock };
}
