import { isSecretGiven } from "./given.ts";
import { isHarmless } from "./shape.ts";
import type { Hide } from "./stand-in.ts";
import { PROSE } from "./vocabulary.ts";

/** Short flags of well-known commands that take a password; `attached` where it follows without a space. */
const COMMANDS: readonly (readonly [command: RegExp, flag: RegExp, attached: RegExp | undefined])[] = [
  [/^(?:mysql\w*|mariadb[\w-]*|mysqldump|mysqladmin)$/, /^$/, /^-p(?=.)/],
  [
    /^(?:sshpass|7z|zip|unzip|docker|podman|nerdctl|helm|oc|mongo\w*|impala-shell|influx)$/,
    /^-[pP]$/,
    undefined,
  ],
  [/^sshpass$/, /^$/, /^-p(?=.)/],
  [/^redis-\w+$/, /^-a$/, undefined],
  [/^(?:ldap\w+|slap\w+)$/, /^-w$/, /^-w(?=.)/],
  [/^(?:curl|wget|http|https|nats|mc|smbclient)$/, /^(?:-u|-U|--user|--proxy-user)$/, /^-u(?=[^:]+:.)/],
  [/^htpasswd$/, /^-(?=[a-zA-Z]*b)[a-zA-Z]+$/, undefined],
];
const COMMAND =
  /(?:^|[\s/;&|(`"'])(?:mysql|mariadb|sshpass|7z|zip|unzip|docker|podman|nerdctl|helm|oc|mongo|influx|impala|redis|ldap|slap|curl|wget|https?|nats|mc|smbclient|htpasswd)/;
const FLAG = /^--?([A-Za-z][\w.-]{1,63})$/;
const ENDS = /^(?:\||\|\||&&|;|&)$/;

/** The items of an argument list, flags and commands among them, without the passwords given to these. */
export function hideArguments(items: readonly string[], hide: Hide): string[] {
  const known = new Set<(typeof COMMANDS)[number]>();
  const shown = [...items];
  for (const [at, item] of items.entries()) {
    const name = item.slice(item.lastIndexOf("/") + 1);
    if (ENDS.test(item)) known.clear();
    for (const each of COMMANDS) if (each[0].test(name)) known.add(each);
    const next = items[at + 1] ?? "";
    if (takesSecret(item, next, known)) shown[at + 1] = hideArgument(next, hide);
    const isAttached = [...known].some(([, , start]) => start?.test(item) === true);
    if (isAttached) shown[at] = item.slice(0, 2) + hideArgument(item.slice(2), hide);
  }
  return shown;
}

function takesSecret(item: string, next: string, known: ReadonlySet<(typeof COMMANDS)[number]>): boolean {
  if (next === "" || PROSE.has(next) || /^--?[A-Za-z]/.test(next)) return false;
  const flag = FLAG.exec(item)?.[1];
  if (flag !== undefined && isSecretGiven(flag, next, true)) return true;
  return [...known].some(([, short]) => item !== "" && short.test(item));
}

/** Of `user:password` the password; quotes stay, references to the environment too. */
function hideArgument(text: string, hide: Hide): string {
  const [, open = "", rest = "", close = ""] = /^(["']?)(.*?)(["']?)$/s.exec(text) ?? [];
  const user = /^[\w.@-]{1,64}:(?=.)/.exec(rest)?.[0] ?? "";
  const secret = rest.slice(user.length);
  if (isHarmless(secret) || /^\$\w+$/.test(secret) || secret.startsWith("<redacted:")) return text;
  return open + user + hide(secret) + close;
}

/** The same for a command line. */
export function hideCommandLine(text: string, hide: Hide): string {
  if (!/(?:^|\s)-/.test(text) || !(text.includes("--") || COMMAND.test(text))) return text;
  // Every other part is white space.
  const parts = text.split(/(\s+)/);
  const shown = hideArguments(
    parts.filter((_, at) => at % 2 === 0),
    hide,
  );
  return parts.map((part, at) => (at % 2 === 0 ? (shown[at / 2] ?? part) : part)).join("");
}
