/** Removes webhooks that an earlier process has registered, while no hook has one and the operator serves none. */

import {
  MANAGED_BY_OPERATOR,
  MUTATING_WEBHOOKS,
  VALIDATING_WEBHOOKS,
  formatLabelSelector,
  isForbidden,
  listConvertedCrds,
  listMetadata,
  type KubeAccess,
} from "../../../kube/index.ts";
import { exponentialDelay, oneLine, sleep } from "../../../base/index.ts";
import type { Registrar } from "../../../webhooks/index.ts";

interface LeftoverOptions extends Pick<KubeAccess, "client" | "clock" | "logger"> {
  /** The prefix of the names of the webhook configurations. */
  readonly name: string;
  /** Makes a registrar that wants no webhooks. */
  readonly makeRegistrar: () => Promise<Pick<Registrar, "flush" | "close">>;
  /** Aborted when a hook has a webhook, or the operator stops. */
  readonly signal: AbortSignal;
}

const RETRY = { firstMs: 1000, maxMs: 300_000 };
/** An operator without webhooks usually lacks the permission to look for them: it gives up after so many tries. */
const MAX_FORBIDDEN_TRIES = 5;

/** Removes the leftovers; tries again after an error, and while a CRD still needs its conversion. Never throws. */
export async function removeLeftoverWebhooks(options: LeftoverOptions): Promise<void> {
  const { clock, logger, signal } = options;
  let registrar: Pick<Registrar, "flush" | "close"> | undefined;
  for (let tries = 1; !signal.aborted; tries += 1) {
    try {
      if (!(await hasLeftovers(options))) break;
      registrar ??= await options.makeRegistrar();
      await registrar.flush();
    } catch (error) {
      logger.debug("Webhooks of an earlier start cannot be removed", { error: oneLine(error) });
      if (isForbidden(error) && tries >= MAX_FORBIDDEN_TRIES) break;
    }
    await sleep(clock, exponentialDelay(tries, RETRY), signal);
  }
  registrar?.close();
}

/** Whether there are webhook configurations of this operator, or CRDs whose conversion it has configured. */
async function hasLeftovers({ client, name }: LeftoverOptions): Promise<boolean> {
  const names = [`${name}-hooks`, `${name}-operator`];
  const labelSelector = formatLabelSelector({ matchLabels: MANAGED_BY_OPERATOR });
  for (const resource of [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS]) {
    const { items } = await listMetadata(client, { resource }, { labelSelector });
    if (items.some(({ metadata }) => names.includes(metadata.name))) return true;
  }
  return (await listConvertedCrds(client, name)).length > 0;
}
