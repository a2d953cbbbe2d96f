/** The page with each block filled in. */
export declare function withBlocks(page: string, blocks: Readonly<Record<string, string>>): string;
/** What stands between the markers of a block, without the fences; empty when they are missing. */
export declare function blockIn(page: string, name: string): string;
