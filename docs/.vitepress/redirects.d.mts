/** Addresses that pages had before, without `.html`, and the page and heading that have their content now. */
export const redirects: Readonly<Record<string, string>>;

/** The page at an old address below `base`. */
export function redirectPage(target: string, base: string): string;
