/** Builds the page of the operator into the directory `to`; its bytes. */
export function bundlePage(to?: string): Promise<number>;
