export declare function saysDiskFull(text: string): boolean;
