/** Finds user names and passwords in URLs. */

import type { Hide } from "../stand-in.ts";

/** A URL up to where it must end. */
const URL_TEXT = /(?<![A-Za-z0-9+])([a-z][a-z0-9+.:-]{0,40}:\/\/)([^\s"'<>]{1,4000})/gi;
/** What may stand behind the `@`: hosts, then port, path, query or nothing. */
const HOST = /^(?:\[[0-9a-f:.]{2,45}\]|[\w.-]{1,255}|[a-z]{2,8}\()(?:[:/?#,);\\\]}]|$)/i;
/** A name that anyone may know: `git@`. */
const USER = /^[A-Za-z][A-Za-z-]{0,15}$/;
/** `user:password@tcp(host:3306)/db`, `user:password@host:5432`: without a scheme. */
const BARE =
  /(?<![^\s"'=,;(])([\w.-]{1,64}):([^\s"'@]{1,200})@(?=(?:tcp|unix)?\(|[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}(?::\d{2,5}(?!\w)|\/\w))/g;
/** Oracle: `jdbc:oracle:thin:scott/tiger@//host`. */
const ORACLE = /(:thin:[\w.-]{1,64}\/)([^\s"'@]{1,200})(?=@)/gi;

/** User infos with their passwords, whatever these contain. */
export function hideUrlUsers(text: string, hide: Hide): string {
  if (!text.includes("@")) return text;
  let plain = text;
  if (plain.includes("://")) {
    plain = plain.replaceAll(URL_TEXT, (all, scheme: string, rest: string) => {
      const end = userEnd(rest);
      return end <= 0 || isShown(rest.slice(0, end))
        ? all
        : scheme + hide(rest.slice(0, end)) + rest.slice(end);
    });
  }
  if (plain.includes(":thin:"))
    plain = plain.replaceAll(ORACLE, (_, user: string, secret: string) => user + hide(secret));
  return plain.replaceAll(BARE, (all, user: string, secret: string) =>
    secret.startsWith("//") || secret.includes("<redacted:") ? all : `${user}:${hide(secret)}@`,
  );
}

function isShown(user: string): boolean {
  return (
    USER.test(user) || user.startsWith("<redacted:") || (/^\$[({][^@]*$/.test(user) && !user.includes(":"))
  );
}

/** Where the user info of what follows `://` ends; 0 = it has none. A password may contain `/`, `?`, `#` and `@`. */
function userEnd(rest: string): number {
  const slash = rest.search(/[/?#]/);
  const authority = slash < 0 ? rest : rest.slice(0, slash);
  const inAuthority = authority.lastIndexOf("@");
  // `host:8080/a@b` and `host/a@b` have none; `user:pa/ss@host` does.
  if (inAuthority < 0 && !/^[^:@]*:(?!\d+$)./.test(authority) && !/^[A-Za-z][\w-]*:\d+$/.test(authority))
    return 0;
  for (let at = rest.lastIndexOf("@"); at > inAuthority; at = at > 0 ? rest.lastIndexOf("@", at - 1) : -1) {
    if (HOST.test(rest.slice(at + 1, at + 300))) return at;
  }
  return Math.max(inAuthority, 0);
}
