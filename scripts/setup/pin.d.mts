export declare function checksumIn(text: string, file: string): string | undefined;
