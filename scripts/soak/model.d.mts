/** What is declared about a module. */
export interface DeclaredModule {
  /** Its directory, or its line in the ModuleSource, exists. */
  present: boolean;
  flag?: boolean;
  /** The value in its directory, and in the ConfigMap. */
  text?: string;
  override?: string;
  /** The content of a template that can be absent. */
  extra?: string;
  version?: string;
}

export interface DeclaredState {
  modules: Record<string, DeclaredModule>;
  zone: string;
  events: Record<string, number>;
}

type Data = Record<string, string>;

export interface Wanted {
  objects: Record<string, Data | undefined>;
  releases: string[];
  states: Record<string, string>;
}

export interface Found {
  objects: { kind: string; name: string; data?: Data; helm: boolean }[];
  releases: Record<string, string>;
  states: Record<string, string>;
  tickAge: number;
}

/** The declared state before any disturbance. */
export function initialState(): DeclaredState;

/** What a declared state leads to. */
export function expected(state: DeclaredState): Wanted;

/** What differs, one sentence each. */
export function differences(wanted: Wanted, found: Found): string[];
