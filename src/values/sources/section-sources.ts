/**
 * The values that sections (of modules, and the global one) get from Secrets and ConfigMaps, and what is wrong with these objects. The
 * *sources* of a section are the entries of its `valuesFrom`, in `addon.yaml` and the ConfigMap; their merged content is a *layer*.
 */

import { sameJson } from "../../base/index.ts";
import { describeProblem, GLOBAL, mayHaveAccount } from "../../base/model/index.ts";
import type { Json, Module, Problem } from "../../base/model/index.ts";
import type { ParsedConfig } from "../config/config-map.ts";
import type { LocatedViolation } from "../origin.ts";
import {
  toSourceObject,
  type OwnedSource,
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
  /** Objects for which the section waits, e.g. `Secret a/b, which does not exist`; empty while earlier content stays in force. */
  readonly missingSources: readonly string[];
  /** Why the objects have no usable content; empty while earlier content stays in force. */
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
  "currentFor" | "previewFor" | "findContent" | "neededObjects" | "isReadyForStart" | "issues"
>;

/** A section with its sources; `name` is for messages. */
interface Owner {
  readonly key: string;
  readonly name: string;
  readonly sources: readonly OwnedSource[];
}

/** What is in force for a section, and the list of sources that it was computed for. */
interface SectionState extends SectionSources {
  readonly sources: readonly OwnedSource[];
}

/** The sources of all sections. While one is unusable or deleted, its last good content stays in force: releases must not change by that. */
export class AllSources {
  readonly #options: SourcesOptions;
  /** Contents of objects by their `id`. */
  readonly #contents = new Map<string, SourceContent>();
  /** States of the sections that have sources, by key. */
  readonly #states = new Map<string, SectionState>();
  #neededObjects: readonly SourceObject[] = [];

  constructor(options: SourcesOptions) {
    this.#options = options;
  }

  /** What the sources of a section contribute now. */
  currentFor(key: string): SectionSources {
    return this.#states.get(key) ?? NO_SOURCES;
  }

  /** What the sources of a section would contribute if the content `proposed` of the ConfigMap came into force. Does not check schemas. */
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

  /**
   * Whether the start of the operator may go on: every needed object was read (also one that turned out not to exist), and the global
   * values lack none. A missing source of a module blocks only the runs of this module.
   */
  get isReadyForStart(): boolean {
    return (
      this.#neededObjects.every(({ id }) => this.#contents.has(id)) &&
      this.currentFor(GLOBAL).missingSources.length === 0
    );
  }

  /** The content of an object by its `id`; undefined if it was not read yet. */
  findContent(id: string): SourceContent | undefined {
    return this.#contents.get(id);
  }

  /** Copies the contents and states of another instance, for a fork of the values. */
  copyFrom(from: AllSources): void {
    for (const [id, content] of from.#contents) this.#contents.set(id, content);
    for (const [key, state] of from.#states) this.#states.set(key, state);
    this.#neededObjects = from.#neededObjects;
  }

  /** Records the content of an object; undefined drops it. The caller then calls `refresh`. */
  setContent(id: string, content: SourceContent | undefined): void {
    if (content === undefined) this.#contents.delete(id);
    else this.#contents.set(id, content);
  }

  /** Computes the states of all sections again. Returns the keys of sections whose layer has changed: their merged values are stale. */
  refresh(): string[] {
    const config = this.#options.config();
    const sections = [GLOBAL, ...this.#options.modules().map(({ valuesKey }) => valuesKey)];
    const owners = sections
      .map((key) => this.#buildOwner(key, config))
      .filter(({ sources }) => sources.length > 0);
    const keys = new Set(owners.map(({ key }) => key));
    const layersBefore = new Map([...this.#states].map(([key, { layer }]) => [key, layer]));
    for (const key of layersBefore.keys()) if (!keys.has(key)) this.#states.delete(key);
    for (const owner of owners) this.#states.set(owner.key, this.#computeState(owner));
    this.#refreshNeededObjects(owners.filter(({ key }) => this.#isOn(key)).flatMap(({ sources }) => sources));
    return [...new Set([...keys, ...layersBefore.keys()])].filter(
      (key) => this.#states.get(key)?.layer !== layersBefore.get(key),
    );
  }

  /**
   * The section `key` with its sources: those of `addon.yaml`, then those of the ConfigMap `config`, which are stronger. Whoever writes the
   * ConfigMap may name any object; a module with an account only those that the account may get.
   */
  #buildOwner(key: string, config: Pick<ParsedConfig, "settings"> | undefined): Owner {
    const module = this.#options.moduleOf(key);
    return {
      key,
      name: module === undefined ? GLOBAL : `module ${module.name}`,
      sources: [...listOwnSources(module), ...(config?.settings.get(key)?.valuesFrom ?? [])],
    };
  }

  /** Whether objects of a section are needed: it is `global`, or its module is enabled. */
  #isOn(key: string): boolean {
    const module = this.#options.moduleOf(key);
    return module === undefined || this.#options.isOn(module);
  }

  /** Updates the list of objects that the sources mean; keeps the same array if nothing changed, so that readers can compare. */
  #refreshNeededObjects(sources: readonly OwnedSource[]): void {
    const namespace = this.#options.namespace;
    const objects = sources.map((source) => toSourceObject(source, namespace));
    const distinct = [...new Map(objects.map((object) => [object.id, object])).values()];
    const ids = (all: readonly SourceObject[]): string => all.map(({ id }) => id).join("\n");
    if (ids(distinct) !== ids(this.#neededObjects)) this.#neededObjects = distinct;
  }

  /**
   * Reads a section's sources again. If they are usable, their new content comes into force. If the same sources were usable
   * before, the last good content stays in force and what is wrong now becomes `issues`. Otherwise the section waits for its
   * `missingSources`, or is wrong by its `problems`.
   */
  #computeState(owner: Owner): SectionState {
    const { key, sources } = owner;
    const before = this.#states.get(key);
    const newLayer = this.#readLayer(owner);
    const violations = newLayer.section === undefined ? [] : this.#options.validate(key, newLayer);
    const problems = [...newLayer.problems, ...violations.map((each) => toProblem(each, newLayer, owner))];
    const { missingSources } = newLayer;
    const isUsable = missingSources.length === 0 && problems.length === 0;
    if (isUsable) return { sources, layer: chooseLayer(before, newLayer), ...NO_ISSUES };
    const wasUsable =
      before !== undefined && before.missingSources.length === 0 && before.problems.length === 0;
    if (wasUsable && areSameSources(before.sources, sources)) {
      const issues = [...newLayer.lostSources, ...problems].map(
        (each) => `${describeProblem(each)}; its last good content stays in force`,
      );
      return { ...before, issues };
    }
    // Values that violate the schema must not reach a release.
    const layer = violations.length === 0 ? newLayer : { ...newLayer, section: undefined };
    return { sources, layer: chooseLayer(before, layer), missingSources, problems, issues: [] };
  }

  /** Merges the contents of the sources of a section, as they were read last. */
  #readLayer({ name, sources }: Owner): SourceLayer {
    const { secrets, namespace } = this.#options;
    return buildSourceLayer(sources, {
      owner: name,
      secrets,
      namespace,
      findContent: (id) => this.findContent(id),
    });
  }
}

/** The sources that a module lists in its `addon.yaml`. */
function listOwnSources(module: Module | undefined): readonly OwnedSource[] {
  const sources = module?.valuesFrom ?? [];
  if (module === undefined || !mayHaveAccount(module)) return sources;
  return sources.map((source) => ({ ...source, askedBy: module.name }));
}

/** The layer that is in force before if the new layer has the same values, so that merged values stay cached; else the new layer. */
function chooseLayer(before: SectionState | undefined, newLayer: SourceLayer): SourceLayer {
  const layer = before?.layer;
  if (layer === undefined || !sameJson(layer.section, newLayer.section)) return newLayer;
  return sameJson([...layer.secretPaths], [...newLayer.secretPaths]) ? layer : newLayer;
}

function areSameSources(a: readonly OwnedSource[], b: readonly OwnedSource[]): boolean {
  return a === b || sameJson(a as unknown as Json, b as unknown as Json);
}

/** A violation as a problem of the object that the wrong value comes from; its position is `Secret NAMESPACE/NAME, key KEY`. */
function toProblem({ path, message }: LocatedViolation, layer: SourceLayer, { key, name }: Owner): Problem {
  const position = layer.findPosition(path) ?? layer.findPosition("");
  const [title = "valuesFrom", dataKey] = position?.split(", key ") ?? [];
  return {
    file: title,
    ...(dataKey !== undefined && { key: dataKey }),
    message: `its value does not fit the schema of ${name}: ${key}${path}: ${message}`,
    remedy: `correct it there, or valuesFrom of ${name}`,
  };
}
