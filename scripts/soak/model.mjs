// What the cluster must contain once the operator has caught up with everything that was declared. Pure.
import { nameOf } from "../bench/modules.mjs";

/** Modules in directories, by their number; those with hooks have a fixed one. */
export const COUNT = 14;
export const ROLES = { zone: 1, seen: 11, told: 12, flaky: 13, broken: 14 };
/** Modules from the registry. */
export const FETCHED = ["fed-a", "fed-b"];
/** A schedule writes an object this often; older ones are a difference. */
export const TICK_SECONDS = 15;
const OLDEST_TICK_SECONDS = 4 * TICK_SECONDS;

/** The names of all modules in directories. */
export const LOCAL = Array.from({ length: COUNT }, (_, index) => nameOf(index + 1));
/** The key of a module in values and in the ConfigMap. */
export const keyOf = (name) => name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());

/** The declared state before any disturbance; disturbances change it together with the cluster. */
export function initialState() {
  const modules = {};
  for (const name of LOCAL) modules[name] = { present: true, text: "first", extra: "0" };
  for (const name of FETCHED) modules[name] = { present: true, version: "1.0.0" };
  return { modules, zone: "a", events: {} };
}

/** Whether a module is to have a release. */
export const isRunning = ({ present, flag }) => present && flag !== false;

/** What a declared state leads to: data of objects by kind and name, the names of releases, the states of AddonModules. */
export function expected(state) {
  const all = Object.entries(state.modules);
  const running = all.filter(([, module]) => isRunning(module));
  const objects = Object.assign({}, ...running.map(([name, module]) => objectsOf(name, module, state)));
  if (running.some(([name]) => name === nameOf(ROLES.told)))
    objects["ConfigMap told"] = { events: eventsOf(state) };
  const states = all.flatMap(([name, module]) =>
    module.present ? [[name, isRunning(module) ? "Ready" : "Disabled"]] : [],
  );
  return {
    objects,
    releases: running.map(([name]) => name).toSorted(),
    states: Object.fromEntries(states),
  };
}

function objectsOf(name, { text, override, extra, version }, state) {
  if (version !== undefined) return { [`ConfigMap ${name}`]: { version } };
  const zone = name === nameOf(ROLES.zone) ? { zone: state.zone } : {};
  const seen = name === nameOf(ROLES.seen) ? { seen: eventsOf(state) } : {};
  const objects = {
    [`ConfigMap ${name}`]: { text: override ?? text, ...zone, ...seen },
    [`Service ${name}`]: undefined,
  };
  return extra === undefined ? objects : { ...objects, [`ConfigMap ${name}-extra`]: { extra } };
}

/** What hooks make of the objects that they watch. */
const eventsOf = ({ events }) => Object.values(events).map(String).toSorted().join(" ");

/**
 * What differs, one sentence each. `found` has `objects` (kind, name, data, `helm`: whether a release owns it), `releases`
 * (name and status of the newest record), `states` of AddonModules, and `tickAge`, the seconds since the last tick.
 */
export function differences(wanted, found) {
  const byName = new Map(found.objects.map((each) => [`${each.kind} ${each.name}`, each]));
  const objects = Object.entries(wanted.objects).flatMap(([name, data]) => {
    const object = byName.get(name);
    if (object === undefined) return [`${name} is missing`];
    return compare(name, data, object.data);
  });
  const orphans = [...byName].filter(([name, { helm }]) => helm && !Object.hasOwn(wanted.objects, name));
  const releases = Object.fromEntries(wanted.releases.map((name) => [name, "deployed"]));
  const late = found.tickAge > OLDEST_TICK_SECONDS ? [`the last tick was ${found.tickAge} s ago`] : [];
  return [
    ...objects,
    ...orphans.map(([name]) => `${name} belongs to no release`),
    ...compare("release", releases, found.releases),
    ...compare("AddonModule", wanted.states, found.states),
    ...late,
  ];
}

function compare(what, wanted = {}, found = {}) {
  const names = [...new Set([...Object.keys(wanted), ...Object.keys(found)])].toSorted();
  return names
    .filter((name) => wanted[name] !== found[name])
    .map((name) => `${what} ${name}: ${shown(found[name])} in place of ${shown(wanted[name])}`);
}

const shown = (value) => (value === undefined ? "nothing" : JSON.stringify(value));
