/** The kinds of settings: how their texts are parsed. */

import { resolve } from "node:path";

import { parseDuration, parseLimit } from "./lib/index.ts";

/** How texts of one kind are parsed. */
export interface Kind<T> {
  readonly kind: string;
  readonly choices?: readonly string[];
  /** What is accepted, for error messages. */
  readonly accepted: string;
  /** Undefined if the text is not accepted. */
  readonly read: (text: string) => T | undefined;
}

function kind<T>(name: string, accepted: string, read: Kind<T>["read"]): Kind<T> {
  return { kind: name, accepted, read };
}

export const TEXT = kind("string", "text", (text) => text);
/** One path, or several separated by colons; relative to the working directory of the process. */
export const PATH = kind("path", "a path", (text) => {
  const paths = text.split(":").filter(Boolean);
  return paths.map((path) => resolve(path)).join(":");
});
/** `$UID` is the user id, so that users of one machine share no temp directory. */
export const OWN_DIR = kind("path", "a path", (text) =>
  resolve(text.replace("$UID", String(process.getuid?.() ?? 0))),
);
export const PROGRAM = kind("program", "a path or a name", (text) =>
  text.includes("/") ? resolve(text) : text,
);
export const INTEGER = kind("integer", "a whole number, 0 or more", (text) =>
  /^\d+$/.test(text) ? Number(text) : undefined,
);
export const COUNT = kind("count", "a whole number, 1 or more", (text) =>
  /^0*[1-9]\d*$/.test(text) ? Number(text) : undefined,
);
export const NUMBER = kind("number", "a number, 0 or more", (text) =>
  /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined,
);
export const BOOLEAN = kind("boolean", "true or false", (text) =>
  /^(true|yes|1)$/i.test(text) ? true : /^(false|no|0)$/i.test(text) ? false : undefined,
);
export const DURATION = kind("duration", "a duration such as 90s or 1m30s", (text) => {
  const ms = parseDuration(text);
  return ms === undefined || ms < 0 ? undefined : ms;
});
export const URL_TEXT = kind("URL", "an http:// or https:// URL", (text) =>
  /^https?:$/.test(URL.parse(text)?.protocol ?? "") ? text : undefined,
);
const PLACE = /^(?:oci|https?):\/\/[^\s,/@?#%\\]+(?:\/[^\s,/@?#%\\]+)*\/?$/;
export const PLACES = kind("list", "oci:// and https:// URLs, separated by commas", (text) => {
  const places = text.split(",").map((each) => each.trim());
  return places.every((each) => PLACE.test(each)) ? places : undefined;
});
export const SHARE = kind("share", "a number from 0 to 1", (text) =>
  /^(0(\.\d+)?|1(\.0+)?)$/.test(text) ? Number(text) : undefined,
);
const LIMITS = "a number such as 3, a share such as 50%, both as 3,50%, or off";
export const LIMIT = kind("limit", LIMITS, parseLimit);

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
export const NAMESPACE_TEMPLATE = kind(
  "template",
  "the name of a namespace, with {name} for that of the module, such as addon-{name}",
  (text) => (DNS_LABEL.test(text.replaceAll("{name}", "x")) ? text : undefined),
);

const LABEL_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const LABEL = new RegExp(
  `^((?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?${LABEL_NAME})=((?:${LABEL_NAME})?)$`,
);
export const LABELS = kind("labels", "labels such as team=core,tier=base", (text) => {
  const parsed = text.split(",").map((each) => LABEL.exec(each.trim()));
  return parsed.every((each) => each !== null)
    ? (Object.fromEntries(parsed.map(([, key = "", value = ""]) => [key, value])) as Record<string, string>)
    : undefined;
});

/** One of several words. */
export function choice<const T extends string>(choices: readonly T[]): Kind<T> {
  const read = (text: string): T | undefined =>
    choices.find((each) => each.toLowerCase() === text.toLowerCase());
  return { kind: "choice", choices, accepted: choices.join(", "), read };
}
