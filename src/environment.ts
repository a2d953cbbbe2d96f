/** The process environment as the rest of the program may see it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Lists the variables that the image has set for the operator alone: its children do not get them. */
const OWN = "ADDON_OPERATOR_OWN_VARIABLES";

/** The environment that the user has given. */
export function environment(): Environment {
  const own = process.env[OWN]?.split(",") ?? [];
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== OWN && !own.includes(name)),
  );
}
