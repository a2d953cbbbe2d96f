import { EVENT_ID, getScalarValue, parseEvents } from "js-yaml";

type Event = ReturnType<typeof parseEvents>[number];

/** A mapping, a sequence or the document, and which of its members is being read. */
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
    const frame = frames.at(-1);
    const isKey = frame !== undefined && enter(frame, event, text);
    // Of the same key twice the last one counts.
    if (isKey && event.type === EVENT_ID.SCALAR && isAt(frames, path)) start = event.valueStart;
    if (event.type !== EVENT_ID.SCALAR && event.type !== EVENT_ID.ALIAS)
      frames.push({ type: event.type, expectsKey: true, member: undefined, index: -1 });
  }
  return start === undefined ? undefined : text.slice(0, start).split("\n").length;
}

/** Moves on to the member that the event begins; true when the event is a key. */
function enter(frame: Frame, event: Event, text: string): boolean {
  if (frame.type === EVENT_ID.SEQUENCE) frame.member = String(++frame.index);
  if (frame.type !== EVENT_ID.MAPPING) return false;
  const isKey = frame.expectsKey;
  frame.expectsKey = !isKey;
  if (isKey) frame.member = event.type === EVENT_ID.SCALAR ? getScalarValue(text, event) : undefined;
  return isKey;
}

function isAt(frames: readonly Frame[], path: readonly string[]): boolean {
  const members = frames.filter((frame) => frame.type !== EVENT_ID.DOCUMENT);
  return members.length === path.length && members.every(({ member }, index) => member === path[index]);
}
