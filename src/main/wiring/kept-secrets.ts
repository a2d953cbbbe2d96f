/** Creates Secrets of the operator again that somebody deletes while it runs. It needs their content only at its next start. */

import { oneLine, type Clock, type Logger, type Scope } from "../../base/index.ts";
import { Loop } from "../../runtime/index.ts";

/** Time between two checks. The Secret of the webhook certificate has checks of its own. */
const CHECK_MS = 180_000;

/** Stores the content of one Secret again if the Secret is missing; returns whether it was. */
type Restore = () => Promise<boolean>;

/** Checks the Secrets, each by its name, until the scope is closed. A failed check is only logged: the next one follows. */
export function keepSecrets(
  secrets: ReadonlyMap<string, Restore>,
  { clock, logger, scope }: { readonly clock: Clock; readonly logger: Logger; readonly scope: Scope },
): void {
  for (const [secret, restore] of secrets) {
    const check = async (): Promise<void> => {
      const isRestored = await restore();
      if (isRestored) logger.warn("A Secret of the operator was deleted; it is created again", { secret });
    };
    const onError = (error: Error): void =>
      logger.debug("A Secret of the operator cannot be checked", { secret, error: oneLine(error) });
    const loop = scope.closeAtEnd(
      new Loop({ clock, run: check, retry: CHECK_MS, resyncMs: CHECK_MS, onError }),
    );
    loop.trigger(CHECK_MS);
  }
}
