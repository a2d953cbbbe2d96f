/** The kinds of settings: how their texts are parsed. */

import { resolve } from "node:path";

import { parseDuration, parseLimit } from "../../base/index.ts";
import { FLAG_EXTENDERS, SCRIPT_EXTENDER, type AppliedExtenders } from "../../base/model/index.ts";

/** How the text of a setting of one kind is converted to its value. */
export interface SettingKind<T> {
  readonly kind: string;
  readonly choices?: readonly string[];
  /** What is accepted, for error messages. */
  readonly accepted: string;
  readonly parse: (text: string) => T | undefined;
}

export interface Setting<T, F extends string> {
  readonly kind: SettingKind<T>;
  readonly flag: F;
  readonly help: string;
}

/** Defines a setting of one kind. `flag` is its documented name without `--`, with its default, if it has one, after `=`: `ha=false`. */
type DefineSetting<T> = <const F extends string>(flag: F, help: string) => Setting<T, F>;

/** Returns the function that defines settings of a kind. */
function defineKind<T>(kind: string, accepted: string, parse: SettingKind<T>["parse"]): DefineSetting<T> {
  return (flag, help) => ({ kind: { kind, accepted, parse }, flag, help });
}

export const TEXT = defineKind("string", "text", (text) => text);
/** An IP address or a host name. An IPv6 address may have brackets, as in a URL. */
export const LISTEN_ADDRESS = defineKind("address", "an IP address or a host name", (text) =>
  text.replace(/^\[(.*)\]$/, "$1"),
);
/** One path, or several separated by colons. Relative paths are resolved against the working directory of the process. */
export const PATH = defineKind("path", "a path", (text) => {
  const paths = text.split(":").filter(Boolean);
  return paths.map((path) => resolve(path)).join(":");
});
/** `$UID` is the user id, so that users of one machine share no temp directory. */
export const TEMP_DIR_PATH = defineKind("path", "a path", (text) =>
  resolve(text.replace("$UID", String(process.getuid?.() ?? 0))),
);
/** A path, or a name that is looked up on the PATH. */
export const PROGRAM = defineKind("program", "a path or a name", (text) =>
  text.includes("/") ? resolve(text) : text,
);
export const INTEGER = defineKind("integer", "a whole number, 0 or more", (text) =>
  /^\d+$/.test(text) ? Number(text) : undefined,
);
export const COUNT = defineKind("count", "a whole number, 1 or more", (text) =>
  /^0*[1-9]\d*$/.test(text) ? Number(text) : undefined,
);
export const NUMBER = defineKind("number", "a number, 0 or more", (text) =>
  /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined,
);
export const BOOLEAN = defineKind("boolean", "true or false", (text) =>
  /^(true|yes|1)$/i.test(text) ? true : /^(false|no|0)$/i.test(text) ? false : undefined,
);
/** A duration, converted to milliseconds. */
export const DURATION = defineKind("duration", "a duration such as 90s or 1m30s", (text) => {
  const ms = parseDuration(text);
  return ms === undefined || ms < 0 ? undefined : ms;
});
export const URL_TEXT = defineKind("URL", "an http:// or https:// URL", (text) =>
  /^https?:$/.test(URL.parse(text)?.protocol ?? "") ? text : undefined,
);
const CHART_LOCATION = /^(?:oci|https?):\/\/[^\s,/@?#%\\]+(?:\/[^\s,/@?#%\\]+)*\/?$/;
/** URLs of registries and chart repositories, without user, query and fragment. */
export const CHART_LOCATIONS = defineKind("list", "oci:// and https:// URLs, separated by commas", (text) => {
  const locations = text.split(",").map((each) => each.trim());
  return locations.every((each) => CHART_LOCATION.test(each)) ? locations : undefined;
});
export const FRACTION = defineKind("fraction", "a number from 0 to 1", (text) =>
  /^(0(\.\d+)?|1(\.0+)?)$/.test(text) ? Number(text) : undefined,
);
const LIMIT_FORMS = "a number such as 3, a percentage such as 50%, both as 3,50%, or off";
export const LIMIT = defineKind("limit", LIMIT_FORMS, parseLimit);

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
export const NAMESPACE_TEMPLATE = defineKind(
  "template",
  "the name of a namespace, with {name} for that of the module, such as addon-{name}",
  (text) => (DNS_LABEL.test(text.replaceAll("{name}", "x")) ? text : undefined),
);

const LABEL_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const LABEL = new RegExp(
  `^((?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?${LABEL_NAME})=((?:${LABEL_NAME})?)$`,
);
/** Labels, converted to an object; undefined for an invalid name or value. */
export const LABELS = defineKind("labels", "labels such as team=core,tier=base", (text) => {
  const parsed = text.split(",").map((each) => LABEL.exec(each.trim()));
  return parsed.every((each) => each !== null)
    ? (Object.fromEntries(parsed.map(([, key = "", value = ""]) => [key, value])) as Record<string, string>)
    : undefined;
});

const EXTENDER_NAMES = FLAG_EXTENDERS.join(", ");
/** The extenders of the Go operator, with the script at the end if it counts; undefined for unknown or repeated names, and without any. */
export const EXTENDERS = defineKind(
  "list",
  `${EXTENDER_NAMES} and, as the last one, ${SCRIPT_EXTENDER}, separated by commas and each at most once`,
  (text): AppliedExtenders | undefined => {
    const names = text.split(",").map((each) => each.trim());
    const isScriptApplied = names.at(-1) === SCRIPT_EXTENDER;
    const flags = isScriptApplied ? names.slice(0, -1) : names;
    const known = flags.flatMap((name) => FLAG_EXTENDERS.find((each) => each === name) ?? []);
    const isValid = known.length === flags.length && new Set(known).size === known.length;
    return isValid ? { flags: known, isScriptApplied } : undefined;
  },
);

/** A kind of setting that accepts one of these words, in any case. Returns a function that defines a setting of this kind by its flag and help text. */
export function choice<const T extends string>(choices: readonly T[]): DefineSetting<T> {
  const parse = (text: string): T | undefined =>
    choices.find((each) => each.toLowerCase() === text.toLowerCase());
  const kind = { kind: "choice", choices, accepted: choices.join(", "), parse };
  return (flag, help) => ({ kind, flag, help });
}
