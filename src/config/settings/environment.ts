/** The process environment as the rest of the program may see it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable in which the image lists the variables that are for the operator only, not for child processes. */
const OWN_VARIABLES_NAME = "ADDON_OPERATOR_OWN_VARIABLES";

/** Reads the process environment, without the variables that the image sets for the operator only. */
export function readEnvironment(): Environment {
  const ownVariables = process.env[OWN_VARIABLES_NAME]?.split(",") ?? [];
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => name !== OWN_VARIABLES_NAME && !ownVariables.includes(name),
    ),
  );
}
