/** Paths of the binaries. */
export interface Tools {
  etcd: string;
  "kube-apiserver": string;
  "kube-controller-manager": string;
  kubectl: string;
  helm: string;
  helm3: string;
}

export interface ClusterOptions {
  /** Takes keys, data and logs; removed at the end. Default: a new temp dir. */
  dir?: string;
  /** False: no kube-controller-manager (no namespace deletion, no garbage collection, no ReplicaSets). */
  controllerManager?: boolean;
  apiServerArgs?: readonly string[];
  controllerManagerArgs?: readonly string[];
}

export interface ControlPlane {
  dir: string;
  bin: Tools;
  kubeconfig: string;
  /** `https://127.0.0.1:PORT`. */
  server: string;
  readonly pids: () => Record<string, number>;
  readonly kubectl: (args: readonly string[], input?: string) => Promise<string>;
  readonly stopApiServer: (signal?: NodeJS.Signals) => Promise<void>;
  readonly startApiServer: () => Promise<void>;
  readonly startControllerManager: () => Promise<void>;
  readonly restartApiServer: (signal?: NodeJS.Signals) => Promise<void>;
  readonly withEtcdStopped: (change: (dataDir: string) => void | Promise<void>) => Promise<void>;
  readonly stop: () => Promise<void>;
}

export declare function startCluster(options?: ClusterOptions): Promise<ControlPlane>;
export declare function kubectl(
  cluster: { bin: Pick<Tools, "kubectl">; kubeconfig: string },
  args: readonly string[],
  input?: string,
): Promise<string>;
