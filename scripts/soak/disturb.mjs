// What happens to an operator, step by step: each disturbance changes the cluster and the model together. All that is random
// comes from the seed and never depends on time.
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { FETCHED, isRunning, keyOf, LOCAL } from "./model.mjs";
import { end, extraFile, extraText, homeOf, publish, start, valuesText } from "./world.mjs";

/** Above it, the least of the events goes. */
const MOST_EVENTS = 8;
const OUTAGES = ["refuse", "answer 503", "hang", "cut watches", "silence watches"];

/** Each with its `weight`, `act(turn)`, and what it does to the model; `turn` has `world`, `state`, `dice`, and the number of the `step`. */
const DISTURBANCES = {
  "edit values": {
    weight: 8,
    act({ world, state, dice, step }) {
      const name = dice.pick(LOCAL);
      const override = dice.chance(0.2) ? undefined : `edit-${step}`;
      state.modules[name].override = override;
      return world.configure({ [keyOf(name)]: override === undefined ? null : `text: ${override}\n` });
    },
  },
  "edit a flag": {
    weight: 4,
    act({ world, state, dice }) {
      const name = dice.pick([...LOCAL, ...FETCHED]);
      const flag = dice.pick([undefined, true, false]);
      state.modules[name].flag = flag;
      return world.configure({ [`${keyOf(name)}Enabled`]: flag === undefined ? null : String(flag) });
    },
  },
  "invalid edit": {
    weight: 1,
    act: ({ world }) => world.configure({ global: "- a list" }),
  },
  "edit an object": {
    weight: 4,
    act({ world, state, dice }) {
      const name = dice.pick(LOCAL);
      if (!isRunning(state.modules[name])) return undefined;
      const path = `${world.path("configmaps")}/${name}?fieldManager=kubectl-edit`;
      return present(world.api.send("PATCH", path, { data: { text: "tampered" } }));
    },
  },
  "delete an object": {
    weight: 3,
    act({ world, state, dice }) {
      const [name, plural] = [dice.pick(LOCAL), dice.pick(["configmaps", "services"])];
      if (!isRunning(state.modules[name])) return undefined;
      return present(world.api.send("DELETE", `${world.path(plural)}/${name}`));
    },
  },
  "delete a release record": {
    weight: 1,
    async act({ world, dice }) {
      const name = dice.pick(LOCAL);
      const { items } = await world.api.get(
        `${world.path("secrets")}?labelSelector=owner%3Dhelm%2Cname%3D${name}`,
      );
      const newest = items.toSorted((a, b) => revisionOf(b) - revisionOf(a))[0];
      if (newest) await present(world.api.send("DELETE", `${world.path("secrets")}/${newest.metadata.name}`));
    },
  },
  "delete an AddonModule": {
    weight: 1,
    act: ({ world, dice }) =>
      present(world.api.send("DELETE", `${world.own("addonmodules")}/${dice.pick(LOCAL)}`)),
  },
  "event for hooks": {
    weight: 10,
    act({ world, state, dice, step }) {
      const name = `event-${dice.below(MOST_EVENTS)}`;
      if (name in state.events && dice.chance(0.4)) {
        delete state.events[name];
        return world.api.send("DELETE", `${world.path("configmaps")}/${name}`);
      }
      const isNew = !(name in state.events);
      state.events[name] = step;
      return labelled(world, { name, label: "event", value: String(step), isNew });
    },
  },
  "global value from a hook": {
    weight: 2,
    act({ world, state, step }) {
      state.zone = `zone-${step}`;
      return labelled(world, { name: "zone", label: "zone", value: state.zone, isNew: false });
    },
  },
  "changed file": {
    weight: 4,
    act({ world, state, dice, step }) {
      const name = dice.pick(LOCAL);
      const module = state.modules[name];
      const change = dice.pick(["values", "template", "no template"]);
      if (!module.present) return;
      if (change === "values") {
        module.text = `file-${step}`;
        return void world.file(`${homeOf(name)}/values.yaml`, valuesText(name, module.text));
      }
      module.extra = change === "template" ? String(step) : undefined;
      if (module.extra === undefined) world.remove(extraFile(name));
      else world.file(extraFile(name), extraText(name, module.extra));
    },
  },
  "directory removed or put back": {
    weight: 2,
    act({ world, state, dice }) {
      const name = dice.pick(LOCAL);
      const module = state.modules[name];
      const [here, away] = [join(world.dir, homeOf(name)), join(world.dir, "away", name)];
      mkdirSync(join(world.dir, "away"), { recursive: true });
      renameSync(...(module.present ? [here, away] : [away, here]));
      module.present = !module.present;
    },
  },
  "hook that fails": {
    weight: 2,
    act({ world }) {
      if (existsSync(join(world.dir, "broken"))) world.remove("broken");
      else world.file("broken", "");
    },
  },
  "API outage": {
    weight: 4,
    async act({ world, dice }) {
      const [outage, steps] = [dice.pick(OUTAGES), 1 + dice.below(10)];
      if (world.outage !== undefined) return;
      world.outage = { left: steps };
      await BEGIN[outage](world);
    },
  },
  "registry outage": {
    weight: 2,
    async act({ world, dice }) {
      const steps = 1 + dice.below(10);
      if (world.registryOutage !== undefined) return;
      world.registryOutage = { left: steps };
      await world.registry.close();
    },
  },
  "moved tag": {
    weight: 1,
    async act({ world, state, dice, step }) {
      const name = dice.pick(FETCHED);
      if (world.registryOutage !== undefined || world.operator === undefined) return;
      state.modules[name].version = `1.0.${step}`;
      await publish(world, name, state.modules[name].version);
    },
  },
  "restart by SIGTERM": { weight: 1, act: (turn) => restart(turn, "SIGTERM") },
  "restart by SIGKILL": { weight: 1, act: (turn) => restart(turn, "SIGKILL") },
};

/** Dice that the seed determines. `roll` returns numbers from 0 to 1. */
export function diceOf(roll) {
  const below = (limit) => Math.floor(roll() * limit);
  return { roll, below, pick: (list) => list[below(list.length)], chance: (share) => roll() < share };
}

/** Chooses a disturbance and does it; resolves to its name. */
export async function disturb(turn) {
  await ebb(turn.world);
  const total = Object.values(DISTURBANCES).reduce((sum, { weight }) => sum + weight, 0);
  let left = turn.dice.below(total);
  const [name, { act }] = Object.entries(DISTURBANCES).find(([, { weight }]) => (left -= weight) < 0);
  await act(turn);
  return name;
}

/** Ends all that would keep the operator from reaching the declared state. */
export async function calm(world) {
  await endOutage(world);
  await endRegistryOutage(world);
  world.file("calm", "");
  world.remove("broken");
  await world.configure({ global: null });
}

/** Lets hooks fail again. */
export const stir = (world) => world.remove("calm");

/** A patient operator lives on, so that a trend shows. */
async function restart({ world, dice }, signal) {
  const queues = dice.pick(["main", "own"]);
  if (world.isPatient) return;
  await end(world, signal);
  await start(world, queues);
}

/** Outages end some steps later. */
async function ebb(world) {
  for (const [name, over] of [
    ["outage", endOutage],
    ["registryOutage", endRegistryOutage],
  ])
    if (world[name] !== undefined && (world[name].left -= 1) < 0) await over(world);
}

const BEGIN = {
  refuse: ({ proxy, outage }) => {
    outage.isRefused = true;
    return proxy.refuse();
  },
  "answer 503": ({ proxy, outage }) => {
    proxy.cut();
    const answer = { status: 503, reason: "ServiceUnavailable" };
    proxy.answer(() => !outage.isOver, answer, Infinity);
  },
  hang: ({ proxy, outage }) => {
    proxy.silence();
    proxy.answer(() => !outage.isOver, { status: 504, reason: "late", lateMs: 20_000 }, Infinity);
  },
  "cut watches": ({ proxy }) => proxy.cut(),
  "silence watches": ({ proxy }) => proxy.silence(),
};

async function endOutage(world) {
  if (world.outage === undefined) return;
  const { outage, proxy } = world;
  outage.isOver = true;
  world.outage = undefined;
  if (outage.isRefused) await proxy.accept();
  // Connections that were silent do not come back.
  else proxy.cut();
}

async function endRegistryOutage(world) {
  if (world.registryOutage === undefined) return;
  world.registryOutage = undefined;
  await world.registry.open();
}

function labelled({ api, path }, { name, label, value, isNew }) {
  const object = { metadata: { name, labels: { soak: label } }, data: { value } };
  return isNew
    ? api.send("POST", path("configmaps"), object)
    : api.send("PATCH", `${path("configmaps")}/${name}`, object);
}

/** What somebody else has removed before needs no change. */
const present = (sending) =>
  sending.catch((error) => {
    if (!/: 404 /.test(error.message)) throw error;
  });

const revisionOf = ({ metadata }) => Number(metadata.labels.version);
