export interface OperatorOptions {
  /** A kubeconfig file. */
  kubeconfig: string;
  namespace?: string;
  /** One directory, or several separated by colons. */
  modulesDir?: string;
  globalHooksDir?: string;
  /** Further flags, later than (so before) those set here. */
  args?: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** The helm binary; default helm 4, or the one the variable HELM names (`helm`, `helm3`). */
  helm?: string;
  /** Run dist/main.js (true), or this script or launcher, instead of the sources. */
  bundle?: boolean | string;
  /** Words before the command, such as those that enter a cgroup. */
  words?: readonly string[];
  /** `bundle` is another operator of this kind, which gets its settings as environment variables. */
  peer?: boolean;
  /** Called for each line of the log, stdout and stderr. */
  onLine?: (line: string) => void;
}

/** The program: the sources, or the bundle if `bundle` or OPERATOR_BUNDLE selects it. */
export function programFile(bundle?: boolean | string): string;

export interface OperatorExit {
  code: number | null;
  signal: string | null;
  error?: string;
}

export interface Answer {
  status: number;
  body: string;
}

export interface OperatorProcess {
  pid: number | undefined;
  /** Its private directory: temp dir `tmp`, debug socket. Removed by `stop` and `kill9`. */
  dir: string;
  url: string;
  socket: string;
  /** Everything it printed so far. */
  lines: readonly string[];
  readonly log: () => string;
  /** Settles when the process has ended and its last line was read. */
  exit: Promise<OperatorExit>;
  /** GET on the HTTP port. */
  readonly http: (path: string) => Promise<Answer>;
  /** GET on the debug socket. */
  readonly debug: (path: string) => Promise<Answer>;
  /** Resolves when /readyz answers 200; rejects with the log when the process ends or time is up. */
  readonly waitReady: (timeoutMs?: number, intervalMs?: number) => Promise<void>;
  /** As `eventually`, but rejects with the log as soon as the process has ended. */
  readonly until: <T>(
    check: () => T | Promise<T>,
    what: string,
    options?: { readonly timeoutMs?: number; readonly intervalMs?: number },
  ) => Promise<T>;
  /** Runs a sub-command against this operator's debug socket. */
  cli(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }>;
  /** SIGTERM, then waits for the end. */
  readonly stop: () => Promise<OperatorExit>;
  /** SIGKILL, then waits for the end. */
  readonly kill9: () => Promise<OperatorExit>;
}

export declare function startOperator(options: OperatorOptions): Promise<OperatorProcess>;

/** A helm that appends one line to `file` for each process started. */
export declare function countingHelm(dir: string, helm: string): { path: string; file: string };
