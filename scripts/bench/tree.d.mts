/** A process and all below it, as they are now. */
export function treeOf(pid: number): number[];
