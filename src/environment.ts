/** The process environment as the rest of the program may see it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Names the variables that the image sets for the operator only, not for child processes. */
const OWN = "ADDON_OPERATOR_OWN_VARIABLES";

/** The process environment without the image's own variables. */
export function environment(): Environment {
  const own = process.env[OWN]?.split(",") ?? [];
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== OWN && !own.includes(name)),
  );
}
