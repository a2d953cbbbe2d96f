/** Free TCP ports of the loopback. */
export declare function freePorts(count: number): Promise<number[]>;
