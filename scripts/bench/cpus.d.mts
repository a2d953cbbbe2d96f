/** Creates a cgroup whose processes get `cpus` processors; `words` come before a command that is to run in it. */
export function limitCpus(cpus: number, root?: string): { words: string[]; remove: () => void };
