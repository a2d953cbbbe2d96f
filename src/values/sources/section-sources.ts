/** What `valuesFrom` of each section contributes now, and what is wrong with it. */

import { sameJson } from "../../lib/index.ts";
import { describeProblem, GLOBAL } from "../../model/index.ts";
import type { Json, Module, Problem, ValuesSource } from "../../model/index.ts";
import type { ParsedConfig } from "../config/config-map.ts";
import type { LocatedViolation } from "../origin.ts";
import {
  toSourceObject,
  type SourceObject,
  buildSourceLayer,
  type SourceContent,
  type SourceContext,
  type SourceLayer,
} from "./source-layer.ts";

/** What `valuesFrom` of one section contributes, and what is wrong with it. */
export interface SectionSources {
  /** The values in force; undefined for a section without sources. */
  readonly layer: SourceLayer | undefined;
  /** What the section waits for, e.g. `Secret a/b, which does not exist`; empty while earlier content stays in force. */
  readonly missingSources: readonly string[];
  /** Why it has no usable content; empty while earlier content stays in force. */
  readonly problems: readonly Problem[];
  /** What is missing or unusable while the last good content stays in force. */
  readonly issues: readonly string[];
}

const NO_ISSUES = { missingSources: [], problems: [], issues: [] };
const NO_SOURCES: SectionSources = { layer: undefined, ...NO_ISSUES };

interface SourcesOptions {
  /** The operator's namespace. */
  readonly namespace: string;
  readonly secrets: SourceContext["secrets"];
  readonly modules: () => readonly Module[];
  readonly moduleOf: (key: string) => Module | undefined;
  readonly isOn: (module: Module) => boolean;
  /** The ConfigMap content in force. */
  readonly config: () => Pick<ParsedConfig, "settings"> | undefined;
  /** Violations of a section that come with this layer. */
  readonly validate: (key: string, layer: SourceLayer) => readonly LocatedViolation[];
}

/** Read-only view of the sources. */
export type SourcesView = Pick<
  AllSources,
  "currentFor" | "previewFor" | "findContent" | "neededObjects" | "isComplete" | "issues"
>;

/** A section with the Secrets and ConfigMaps that `valuesFrom` lists for it; `name` is for messages. */
interface Owner {
  readonly key: string;
  readonly name: string;
  readonly sources: readonly ValuesSource[];
}

/** What is in force for a section, and the list of sources that it was computed for. */
interface SectionState extends SectionSources {
  readonly sources: readonly ValuesSource[];
}

/**
 * The sources of all sections. While the content of a source is unusable or deleted, the last good content stays in
 * force: a deleted Secret must not make releases change.
 */
export class AllSources {
  readonly #options: SourcesOptions;
  readonly #contents = new Map<string, SourceContent>();
  readonly #states = new Map<string, SectionState>();
  #neededObjects: readonly SourceObject[] = [];

  constructor(options: SourcesOptions) {
    this.#options = options;
  }

  /** What the sources of a section contribute now. */
  currentFor(key: string): SectionSources {
    return this.#states.get(key) ?? NO_SOURCES;
  }

  /** What the sources that `proposed` lists would contribute if this content of the ConfigMap came into force. Does not check schemas. */
  previewFor(key: string, proposed: Pick<ParsedConfig, "settings">): SectionSources {
    const owner = this.#buildOwner(key, proposed);
    if (owner.sources.length === 0) return NO_SOURCES;
    const inForce = this.#states.get(key);
    if (inForce !== undefined && areSameSources(inForce.sources, owner.sources)) return inForce;
    const layer = this.#readLayer(owner);
    return { layer, missingSources: layer.missingSources, problems: layer.problems, issues: [] };
  }

  /** The Secrets and ConfigMaps that `global` and enabled modules list; the same array until the list changes. */
  get neededObjects(): readonly SourceObject[] {
    return this.#neededObjects;
  }

  /** What is missing or unusable in any section while the last good content stays in force. */
  get issues(): readonly string[] {
    return [...this.#states.values()].flatMap(({ issues }) => issues);
  }

  /** Whether every needed object was read, and no source of the global values is missing. */
  get isComplete(): boolean {
    return (
      this.#neededObjects.every(({ title }) => this.#contents.has(title)) &&
      this.currentFor(GLOBAL).missingSources.length === 0
    );
  }

  /** The content of an object by its title; undefined if it was not read yet. */
  findContent(title: string): SourceContent | undefined {
    return this.#contents.get(title);
  }

  /** Copies everything that another instance knows, for a fork of the values. */
  copyFrom(from: AllSources): void {
    for (const [title, content] of from.#contents) this.#contents.set(title, content);
    for (const [key, state] of from.#states) this.#states.set(key, state);
    this.#neededObjects = from.#neededObjects;
  }

  /** Records the content of an object; undefined drops it. The caller then calls `refresh`. */
  setContent(title: string, content: SourceContent | undefined): void {
    if (content === undefined) this.#contents.delete(title);
    else this.#contents.set(title, content);
  }

  /** Computes all layers again. Returns the keys of sections whose layer has changed, whose merged values are stale. */
  refresh(): string[] {
    const config = this.#options.config();
    const sections = [GLOBAL, ...this.#options.modules().map(({ valuesKey }) => valuesKey)];
    const owners = sections
      .map((key) => this.#buildOwner(key, config))
      .filter(({ sources }) => sources.length > 0);
    const keys = new Set(owners.map(({ key }) => key));
    const before = new Map([...this.#states].map(([key, { layer }]) => [key, layer]));
    for (const key of before.keys()) if (!keys.has(key)) this.#states.delete(key);
    for (const owner of owners) this.#states.set(owner.key, this.#computeState(owner));
    this.#refreshNeededObjects(owners.filter(({ key }) => this.#isOn(key)).flatMap(({ sources }) => sources));
    return [...new Set([...keys, ...before.keys()])].filter(
      (key) => this.#states.get(key)?.layer !== before.get(key),
    );
  }

  /** The owner of a section; sources of the ConfigMap are above those of `addon.yaml`. */
  #buildOwner(key: string, config: Pick<ParsedConfig, "settings"> | undefined): Owner {
    const module = this.#options.moduleOf(key);
    return {
      key,
      name: module === undefined ? GLOBAL : `module ${module.name}`,
      sources: [...(module?.valuesFrom ?? []), ...(config?.settings.get(key)?.valuesFrom ?? [])],
    };
  }

  /** Whether objects of a section are needed: it is `global`, or its module is enabled. */
  #isOn(key: string): boolean {
    const module = this.#options.moduleOf(key);
    return module === undefined || this.#options.isOn(module);
  }

  /** Updates the list of wanted objects; keeps the same list if nothing changed. */
  #refreshNeededObjects(sources: readonly ValuesSource[]): void {
    const namespace = this.#options.namespace;
    const objects = sources.map((source) => toSourceObject(source, namespace));
    const wanted = [...new Map(objects.map((object) => [object.title, object])).values()];
    const titles = (all: readonly SourceObject[]): string => all.map(({ title }) => title).join("\n");
    if (titles(wanted) !== titles(this.#neededObjects)) this.#neededObjects = wanted;
  }

  /** The new state of a section. Keeps the former layer if the same sources were usable before and are unusable now. */
  #computeState(owner: Owner): SectionState {
    const { key, sources } = owner;
    const kept = this.#states.get(key);
    const newLayer = this.#readLayer(owner);
    const violations = newLayer.section === undefined ? [] : this.#options.validate(key, newLayer);
    const problems = [...newLayer.problems, ...violations.map((each) => toProblem(each, newLayer, owner))];
    const { missingSources } = newLayer;
    if (missingSources.length + problems.length === 0)
      return { sources, layer: chooseLayer(kept, newLayer), ...NO_ISSUES };
    const wasGood = kept !== undefined && kept.missingSources.length + kept.problems.length === 0;
    if (!wasGood || !areSameSources(kept.sources, sources)) {
      const layer = violations.length === 0 ? newLayer : { ...newLayer, section: undefined };
      return { sources, layer: chooseLayer(kept, layer), missingSources, problems, issues: [] };
    }
    const issues = [...newLayer.lostSources, ...problems].map(
      (each) => `${describeProblem(each)}; its last good content stays in force`,
    );
    return { ...kept, issues };
  }

  #readLayer({ name, sources }: Owner): SourceLayer {
    const { secrets, namespace } = this.#options;
    return buildSourceLayer(sources, {
      owner: name,
      secrets,
      namespace,
      findContent: (title) => this.findContent(title),
    });
  }
}

/** The layer in force if the new layer is equal, so that merged values stay cached; else the new layer. */
function chooseLayer(kept: SectionState | undefined, newLayer: SourceLayer): SourceLayer {
  const before = kept?.layer;
  if (before === undefined || !sameJson(before.section, newLayer.section)) return newLayer;
  return sameJson([...before.secretPaths], [...newLayer.secretPaths]) ? before : newLayer;
}

function areSameSources(a: readonly ValuesSource[], b: readonly ValuesSource[]): boolean {
  return a === b || sameJson(a as unknown as Json, b as unknown as Json);
}

/** A violation as a problem of the object that the wrong value comes from. */
function toProblem({ path, message }: LocatedViolation, layer: SourceLayer, { key, name }: Owner): Problem {
  const position = layer.findPosition(path) ?? layer.findPosition("");
  const [file = "valuesFrom", fileKey] = position?.split(", key ") ?? [];
  return {
    file,
    ...(fileKey !== undefined && { key: fileKey }),
    message: `its value does not fit the schema of ${name}: ${key}${path}: ${message}`,
    remedy: `correct it there, or valuesFrom of ${name}`,
  };
}
