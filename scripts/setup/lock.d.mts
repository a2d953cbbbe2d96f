export declare function lock(path: string, onWait?: (pid: number) => void): Promise<() => void>;
