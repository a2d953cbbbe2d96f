/** Writes ca, apiserver, admin (.crt and .key) and the service-account key pair into `dir`. */
export declare function writePki(dir: string): void;
