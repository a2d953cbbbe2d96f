/** Tells by its form whether a text may be a secret. */

import { words } from "./key.ts";
import { SECRET_ANYWHERE } from "./vocabulary.ts";

/** Words for yes and no, and texts that only refer to where a secret is kept. */
const SWITCH = /^(?:true|false|yes|no|on|off|null|~|enabled|disabled|required|optional)$/i;
/** `accessToken: 1h` is how long one lives. */
const DURATION = /^\d{1,4}(?:ms|[smhd])$/;
const REFERENCES = [
  /^\$[({][\w.:-]{1,200}[)}]$/,
  /^pk_(?:live|test)_\w{1,200}$/,
  /^\$__(?:file|env|vault)\{[^}]{0,300}\}$/,
  /^\{\{[^{}]{0,300}\}\}$/,
  /^%[A-Z_]{2,64}%$/,
  /^<path:[^>]{0,300}>$/,
  /^(?:ref\+\w{2,20}:\/\/|vault:|env:|file:|secretref:|valueFrom:)[\w./#:@-]{1,300}$/i,
  /^[A-Za-z][\w-]{0,60}\.(?:key|pem|crt|cer|jks|p12|pfx|ya?ml|json|conf|properties|txt)$/,
  /^(?:\/[A-Za-z][A-Za-z._-]{1,60}){2,12}$/,
];

/** True for what is no secret under any key. */
export function isHarmless(text: string): boolean {
  if (text.length === 0 || SWITCH.test(text) || DURATION.test(text)) return true;
  return /^[$%<{/a-z]/i.test(text) && REFERENCES.some((form) => form.test(text));
}

const NAME = /^[A-Za-z][A-Za-z]*\d{0,4}(?:[-_./][A-Za-z0-9][A-Za-z]*\d{0,4})*$/;
const NUMBER = /^[-+]?\d[\d.]*\s?[A-Za-z%]{0,2}$/;
const PATH = /^\.{0,2}\/[\w./-]*$/;
const EMAIL = /^[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+$/;
const PLAIN_URL = /^[a-z][a-z0-9+.-]{1,20}:\/\/[\w.:-]+(?:\/[\w./-]*)?$/i;

/** True for names, paths, numbers and addresses: under a key that is only likely to be secret, they are shown. */
export function looksLikeName(text: string): boolean {
  if (text.length < 2 || text.length > 200) return false;
  if (NUMBER.test(text) || EMAIL.test(text)) return true;
  if (!NAME.test(text) && !PATH.test(text) && !PLAIN_URL.test(text))
    return /^[A-Za-z][a-z]*(?: [A-Za-z][a-z]*){2,40}\.?$/.test(text);
  return !looksRandom(text) && !hasMixedPart(text);
}

/** A part like `a1b2c3`: letters and digits change places more than once. */
function hasMixedPart(text: string): boolean {
  return text.split(/[-_./:]/).some((part) => (part.match(/\d+/g)?.length ?? 0) > 1);
}

const KEY_WORDS = new Set(
  "key keys user username crt cert certs ca tls auth id accesskey secretkey conf config license regcred".split(
    " ",
  ),
);

/** Words of passwords that nobody was to use. */
const JOKES = new Set(
  "not a the change changeme changeit secure insecure super top random very use please replace example".split(
    " ",
  ),
);

/** True for what names a Secret or a value in it: `my-app-secret`, `admin-password`, `tls.key`. */
export function looksLikeKeyName(text: string): boolean {
  if (!/^[A-Za-z][A-Za-z._-]{1,80}$/.test(text)) return false;
  const parts = words(text);
  return (
    parts.some((word) => KEY_WORDS.has(word) || SECRET_ANYWHERE.has(word)) &&
    !parts.some((word) => JOKES.has(word))
  );
}

/** Least length of a part that is judged by its randomness, and how long its runs of one kind are at most. */
const RANDOM_LENGTH = 20;
const RANDOM_RUN = 2.5;
const PART = /[A-Za-z0-9]{20,}/g;
/** `Camel`, `lower`, `UPPER`, `123`. */
const RUN = /[A-Z]?[a-z]+|[A-Z]+|\d+/g;
const HEX = /^(?:[0-9a-f]+|[0-9A-F]+)$/;

/** True when a part of the text has letters and digits in no order, as keys and tokens have. */
export function looksRandom(text: string): boolean {
  if (text.length < RANDOM_LENGTH) return false;
  return [...text.matchAll(PART)].some(([part]) => isRandom(part));
}

function isRandom(part: string): boolean {
  if (!/\d/.test(part) || !/[A-Za-z]/.test(part)) return false;
  if (HEX.test(part)) return part.length >= 32;
  const runs = part.match(RUN)?.length ?? 1;
  return part.length / runs < RANDOM_RUN;
}
