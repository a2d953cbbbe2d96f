/** What the Dockerfile of the checkout `dir` sets for the operator alone. */
export function imageEnvironment(dir: string): Record<string, string>;
