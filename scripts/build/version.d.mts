/** What a build of the checkout `root` calls itself. */
export function buildVersion(root: string, env?: Readonly<Record<string, string | undefined>>): string;
