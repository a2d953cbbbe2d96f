/** Formats durations, and maps states to tones. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `8 s`, `5 min`, `3 h`, `2 d`. */
export function formatDuration(seconds: number): string {
  if (seconds < 10) return `${Math.max(0, Math.round(seconds * 10) / 10)} s`;
  if (seconds < 2 * MINUTE) return `${Math.round(seconds)} s`;
  if (seconds < 2 * HOUR) return `${Math.round(seconds / MINUTE)} min`;
  return seconds < 2 * DAY ? `${Math.round(seconds / HOUR)} h` : `${Math.round(seconds / DAY)} d`;
}

/** `5 min ago` */
export function formatAge(time: string | number, now: number): string {
  const seconds = (now - new Date(time).getTime()) / 1000;
  return seconds < 1 ? "now" : `${formatDuration(Math.floor(seconds))} ago`;
}

/** Shorter texts stay: reading them twice costs nothing. */
const MIN_REPEATED_LENGTH = 20;

/** Replaces `displayed`, a text displayed elsewhere on the page, so that the user reads an error only once. */
export function withoutRepetition(text: string, displayed: string, placeholder = "as above"): string {
  return displayed.length < MIN_REPEATED_LENGTH ? text : text.replaceAll(displayed, placeholder);
}

/** The urgency of a state: its colour, and its rank in the list of modules. */
export type Tone = "bad" | "wait" | "busy" | "good" | "off";

const STATES_BY_TONE: Readonly<Record<Tone, readonly string[]>> = {
  bad: ["Invalid", "Retrying", "Unhealthy", "RolledBack", "Degraded", "Failed", "Missing", "False"],
  wait: ["Pending", "Suspended", "Drifted", "Terminating", "Unknown"],
  busy: ["Running", "Progressing", "InProgress", "Deleting", "Converging"],
  good: ["Ready", "True", "Succeeded"],
  off: ["Disabled"],
};

export const TONES_BY_URGENCY: readonly Tone[] = ["bad", "wait", "busy", "good", "off"];

export function getTone(state: string): Tone {
  return TONES_BY_URGENCY.find((tone) => STATES_BY_TONE[tone].includes(state)) ?? "wait";
}
