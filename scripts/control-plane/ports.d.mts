/** Free TCP ports of the loopback. */
export declare function freePorts(count: number): Promise<number[]>;
/** The first port of a share that no other process has claimed; undefined without one. */
export declare function claimShare(start: number): Promise<number | undefined>;
