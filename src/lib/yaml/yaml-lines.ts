/** Finds the line of a key in a YAML text. */

import { EVENT_ID, getScalarValue, parseEvents } from "js-yaml";

type Event = ReturnType<typeof parseEvents>[number];
type ScalarEvent = Parameters<typeof getScalarValue>[1];

/** A mapping, a sequence or the document, and the member that is being read. */
interface Frame {
  readonly type: Event["type"];
  expectsKey: boolean;
  member: string | undefined;
  index: number;
}

/** Line (from 1) of the key at `path` in a YAML text; undefined when it is not written there. */
export function lineOf(text: string, path: readonly string[]): number | undefined {
  const frames: Frame[] = [];
  let start: number | undefined;
  for (const event of parseEvents(text, {})) {
    if (event.type === EVENT_ID.POP) {
      frames.pop();
      if (frames.length === 0) break;
      continue;
    }
    const key = enter(frames.at(-1), event, text);
    // When a key stands twice, the last one counts.
    if (key !== undefined && isAt(frames, path)) start = key.valueStart;
    if (event.type !== EVENT_ID.SCALAR && event.type !== EVENT_ID.ALIAS)
      frames.push({ type: event.type, expectsKey: true, member: undefined, index: -1 });
  }
  return start === undefined ? undefined : text.slice(0, start).split("\n").length;
}

/** Moves on to the member that the event begins, or stays where the event is a key. */
function enter(frame: Frame | undefined, event: Event, text: string): ScalarEvent | undefined {
  if (frame?.type === EVENT_ID.SEQUENCE) frame.member = String(++frame.index);
  if (frame?.type !== EVENT_ID.MAPPING) return undefined;
  frame.expectsKey = !frame.expectsKey;
  if (frame.expectsKey) return undefined;
  const key = event.type === EVENT_ID.SCALAR ? event : undefined;
  frame.member = key === undefined ? undefined : getScalarValue(text, key);
  return key;
}

function isAt(frames: readonly Frame[], path: readonly string[]): boolean {
  const members = frames.filter((frame) => frame.type !== EVENT_ID.DOCUMENT);
  return members.length === path.length && members.every(({ member }, index) => member === path[index]);
}
