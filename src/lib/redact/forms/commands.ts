/** Finds passwords in command lines and lists of arguments. */

import { isSecretGiven } from "../given.ts";
import { isHarmless } from "../forms-of-words.ts";
import { STAND_IN, type Hide } from "../stand-in.ts";
import { PROSE } from "../vocabulary.ts";

/** A well-known command that takes a password on its command line. */
interface Command {
  readonly name: RegExp;
  /** The short flag before it. */
  readonly flag?: RegExp;
  /** How many arguments stand between flag and password. */
  readonly between?: number;
  /** The flag that it follows without a space. */
  readonly attached?: RegExp;
}

const COMMANDS: readonly Command[] = [
  { name: /^(?:mysql|mariadb)[\w-]*$/, attached: /^-p./ },
  { name: /^7z\w?$/, attached: /^-p./ },
  { name: /^sshpass$/, flag: /^-p$/, attached: /^-p./ },
  {
    name: /^(?:zip|unzip|docker|podman|nerdctl|helm|oc|mongo\w*|impala-shell|influx)$/,
    flag: /^-[pP]$/,
  },
  { name: /^(?:sqlcmd|bcp|osql)$/, flag: /^-P$/, attached: /^-P./ },
  { name: /^az$/, flag: /^-p$/ },
  { name: /^rabbitmqctl$/, flag: /^(?:add_user|change_password)$/, between: 1 },
  { name: /^mc$/, flag: /^set$/, between: 3 },
  { name: /^redis-\w+$/, flag: /^-a$/ },
  { name: /^(?:ldap|slap)\w+$/, flag: /^-w$/, attached: /^-w./ },
  {
    name: /^(?:curl|wget|https?|nats|mc|smbclient|etcdctl)$/,
    flag: /^(?:-[uU]|--user|--proxy-user)$/,
    attached: /^-u[^:]+:./,
  },
  // `htpasswd -nb user password`, `htpasswd -b file user password`
  { name: /^htpasswd$/, flag: /^-(?=\w{0,9}n)\w{0,9}b\w{0,9}$/, between: 1 },
  { name: /^htpasswd$/, flag: /^-(?!\w{0,9}n)\w{0,9}b\w{0,9}$/, between: 2 },
];
/** What a command may stand behind: a path, the begin of a quotation. */
const BEFORE_NAME = /^.*[/;&|(`"'](?=.)/s;
const FLAG = /^--?([A-Za-z][\w.-]{1,63})$/;
const ANY_FLAG = /^--?[A-Za-z]/;
const ENDS = /^(?:\|\|?|&&?|;)$/;

/** The passwords in an argument list, by their place, as they may be shown. */
export function hideArguments(items: readonly string[], hide: Hide): ReadonlyMap<number, string> {
  const known = new Set<Command>();
  const hidden = new Map<number, string>();
  for (const [at, item] of items.entries()) {
    if (ENDS.test(item)) known.clear();
    const name = item.replace(BEFORE_NAME, "");
    for (const each of COMMANDS) if (each.name.test(name)) known.add(each);
    const isAttached = [...known].some(({ attached }) => attached?.test(item));
    if (isAttached) hidden.set(at, item.slice(0, 2) + hideArgument(item.slice(2), hide));
    const place = at + 1 + ([...known].find(({ flag }) => flag?.test(item))?.between ?? 0);
    const next = items[place];
    if (next !== undefined && takesSecret(item, next, known)) hidden.set(place, hideArgument(next, hide));
  }
  return hidden;
}

function takesSecret(item: string, next: string, known: ReadonlySet<Command>): boolean {
  if (PROSE.has(next) || ANY_FLAG.test(next)) return false;
  const flag = FLAG.exec(item)?.[1];
  if (flag !== undefined && isSecretGiven(flag, next, true)) return true;
  return [...known].some((each) => each.flag?.test(item));
}

/** What stands before the secret: a quote, a user; and the secret up to the quote that ends it. */
const ARGUMENT = /^(["'`]?(?:[\w.@-]{1,64}:(?=.))?)(.*?)(?=["'`]?$)/s;

/** Of `user:password` the password; quotes stay, references to the environment too. */
function hideArgument(text: string, hide: Hide): string {
  return text.replace(ARGUMENT, (all, before: string, secret: string) =>
    isHarmless(secret) || /^\$\w+$/.test(secret) || secret.startsWith(STAND_IN) ? all : before + hide(secret),
  );
}

/** The same for a command line. */
export function hideCommandLine(text: string, hide: Hide): string {
  if (!/(?:^|\s)(?:--?[A-Za-z]|add_user\s|change_password\s|alias set\s)/.test(text)) return text;
  // Every other part is white space.
  const parts = text.split(/(\s+)/);
  const items = parts.filter((_, at) => at % 2 === 0);
  const hidden = hideArguments(items, hide);
  return parts.map((part, at) => hidden.get(at / 2) ?? part).join("");
}
