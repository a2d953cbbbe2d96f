/** The process environment as the rest of the program may see it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * What the C library reads when a process begins, and only then: all threads share one arena, and freed memory goes
 * back to the system. An operator at rest is 10 MB smaller for it. Hooks and helm do not get them from us.
 */
const SMALL: Environment = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" };
/** Room for new objects, in MB: with more, V8 lets garbage of a busy start grow by a quarter for no less work. */
const FLAGS = ["--max-semi-space-size=16"];
/** Names the variables that the operator has set for itself. */
const OWN = "ADDON_OPERATOR_OWN_VARIABLES";

/** The environment that the operator was given. */
export function environment(): Environment {
  const own = process.env[OWN]?.split(",") ?? [];
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== OWN && !own.includes(name)),
  );
}

/**
 * Replaces this process by the same one with a small memory footprint, in 50 ms; pid and files stay. Does nothing
 * where that is done already (the image starts it so) or cannot be done.
 */
export function becomeSmall(): void {
  const missing = Object.entries(SMALL).filter(([name]) => process.env[name] === undefined);
  if (missing.length === 0 || process.platform !== "linux" || process.execve === undefined) return;
  const own = missing.map(([name]) => name).join(",");
  const args = [process.execPath, ...FLAGS, ...process.execArgv, ...process.argv.slice(1)];
  process.execve(process.execPath, args, { ...process.env, ...Object.fromEntries(missing), [OWN]: own });
}
