import { describe, expect, it } from "vitest";

import { redactText, redactValues } from "../../../src/base/index.ts";

const starred = (text: string): string => text.replaceAll(/<redacted:[0-9a-f]{32}>/g, "*");
/** As a log line shows it. */
const displayed = (text: string): string => starred(redactText(text));
/** As a value that is a text. */
const shownValue = (text: string): unknown => {
  const value = (redactValues({ text }) as { text: unknown }).text;
  return typeof value === "string" ? starred(value) : value;
};

describe("a text that may be YAML", () => {
  it.each([
    [
      'secrets "db" is forbidden: User cannot get resource',
      'secrets "db" is forbidden: User cannot get resource',
    ],
    ["curl -u bob:ab1 -H 'X-Trace: on' https://h", "curl -u bob:* -H 'X-Trace: on' https://h"],
    [
      '{"a text of words": 1, "env": [{"name": "DB_PASSWORD", "value": "ab1c"}]}',
      '{"a text of words": 1, "env": [{"name": "DB_PASSWORD", "value": "*"}]}',
    ],
  ])("%s", (text, wanted) => {
    expect(shownValue(text)).toBe(wanted);
  });
});

describe("what a shell replaces, in place of a value", () => {
  it.each([
    "export REDIS_PASSWORD=$(kubectl get secret redis -o jsonpath=x | base64 -d)",
    'PASSWORD=${REDIS_PASSWORD} PGPASSWORD="${PG}" run',
  ])("%s is displayed", (text) => {
    expect(displayed(text)).toBe(text);
  });

  it.each([
    ["PASSWORD=hunter2x run", "PASSWORD=* run"],
    ["PASSWORD=$ecret1x run", "PASSWORD=* run"],
    ["PASSWORD=$(Secret9 run", "PASSWORD=* run"],
    ["PASSWORD=$(mysecret9", "PASSWORD=*"],
    ["PASSWORD=$(cat x PASSWORD=hunter2x)", "PASSWORD=$(cat x PASSWORD=*)"],
  ])("%s is hidden", (text, wanted) => {
    expect(displayed(text)).toBe(wanted);
  });
});

describe("passwords on command lines", () => {
  it.each([
    ["/usr/bin/mysql -u root -pab1 db", "/usr/bin/mysql -u root -p* db"],
    ["mysql -p'ab1' db", "mysql -p'*' db"],
    ["7z a -pab1 x.7z", "7z a -p* x.7z"],
    ["docker login -u bob -p s3cr3t", "docker login -u bob -p *"],
    ["redis-cli -a 'two-1' ping", "redis-cli -a '*' ping"],
    ['redis-cli -a "two-1" ping', 'redis-cli -a "*" ping'],
    ["sshpass -p ab1 ssh h", "sshpass -p * ssh h"],
    ["sshpass -pab1 ssh h", "sshpass -p* ssh h"],
    ["ldapsearch -w ab1 -x", "ldapsearch -w * -x"],
    ["ldapsearch -wab1 -x", "ldapsearch -w* -x"],
    ["curl -u bob:ab1 https://h", "curl -u bob:* https://h"],
    ["curl -ubob:ab1 https://h", "curl -ubob:* https://h"],
    ["curl --user b.o-b@x:ab1 https://h", "curl --user b.o-b@x:* https://h"],
    ["curl -u a:b$PW https://h", "curl -u a:* https://h"],
    ["htpasswd -nb bob s3cr3t", "htpasswd -nb bob *"],
    ["htpasswd -bB users bob s3cr3t", "htpasswd -bB users bob *"],
    ["tool --token  abc12\ty", "tool --token  *\ty"],
    ["tool -password abc12 -v", "tool -password * -v"],
    ["--password abc12", "--password *"],
    ["helm list | docker login -p ab1", "helm list | docker login -p *"],
    ["failed: `docker login -p s3c`", "failed: `docker login -p *`"],
    ["sh -c 'mysql -pab1 db'", "sh -c 'mysql -p* db'"],
    ["(docker login -p ab1 h)", "(docker login -p * h)"],
  ])("%s", (text, wanted) => {
    expect(displayed(text)).toBe(wanted);
    expect(redactText(redactText(text))).toBe(redactText(text));
  });

  it.each([
    "tar -p abc",
    "docker login -p",
    "docker login -p -v",
    "run --password --next 1",
    "run --password -v",
    "run -password is wrong",
    "run --key a1%",
    "docker ps | ssh -p ab12 h",
    "docker ps && ssh -p ab12 h",
    "docker ps ; ssh -p ab12 h",
    "ssh -p ab12 docker",
    "mysql -p db",
    "mysql -p$PW db",
    "curl -u $AUTH https://h",
    "curl -u bob:$PW https://h",
    "redis-cli -a ${PW} ping",
    "htpasswd -c users bob",
    "zip -P '' x",
    "my-docker -p abc",
  ])("stays: %s", (text) => expect(displayed(text)).toBe(text));

  it("are hidden in lists of arguments", () => {
    const args = ["/bin/docker", "login", "-p", "ab1", ";", "ssh", "-p", "ab12", "--token"];
    expect(starred(JSON.stringify(redactValues(args)))).toBe(
      JSON.stringify(["/bin/docker", "login", "-p", "*", ";", "ssh", "-p", "ab12", "--token"]),
    );
    expect(redactValues(["--password", 5, "curl", true])).toEqual(["--password", 5, "curl", true]);
  });
});

describe("texts that are documents", () => {
  it.each([
    ['{"name": "DB_PASSWORD", "value": "abcd"}', '{"name": "DB_PASSWORD", "value": "*"}'],
    ['[{"name": "DB_PASSWORD", "value": "abcd"}]', '[{"name": "DB_PASSWORD", "value": "*"}]'],
    ["name: DB_PASSWORD\nvalue: abcd\n", "name: DB_PASSWORD\nvalue: *\n"],
    ["credentials:\n  user: u\n  text: abcd", "credentials:\n  user: u\n  text: *"],
    ["password: correct horse battery", "password: *"],
    ['{"password": "abcd", "token": "abcdefgh"}', '{"password": "*", "token": "*"}'],
    // A short secret would be found in other words too, and what is written in another way not at all.
    ["user: abcde\npassword: abc\n", "*"],
    ['{"password": "abcd\\u0041x"}', "*"],
    // A sentence in two lines is no document.
    ["see\n- curl -u a:bcd", "see\n- curl -u a:*"],
    ["{broken: [password: abc12", "{broken: [password: *"],
  ])("%j", (text, wanted) => expect(shownValue(text)).toBe(wanted));

  it.each(["a: [\npassword:\n  next", '{"secretName": "abc"}', "a: b\nc: d"])("stays: %j", (text) =>
    expect(shownValue(text)).toBe(text),
  );
});

describe("what is given in a text", () => {
  it.each([
    ["Bearer ABCDEFGH12ab", "Bearer *"],
    ["<password>abc</password><user>bob</user>", "<password>*</password><user>bob</user>"],
    ["<password>not</password>", "<password>*</password>"],
    ["token: abc123", "token: *"],
    ['token: "abc"', 'token: "*"'],
    ["clientSecret=my-tls-secret", "clientSecret=*"],
    ["secret=hunter2", "secret=*"],
    ['key="a1%b"', 'key="*"'],
    ["token=x1 password=b2", "token=* password=*"],
  ])("%s", (text, wanted) => expect(displayed(text)).toBe(wanted));

  it.each([
    "the token: abc12",
    "the token: expired yesterday",
    "secret=my-tls-secret",
    'key="a1%"',
    "key=tls-1",
    "<name>password</name>",
    "nothing is given = here",
  ])("stays: %s", (text) => expect(displayed(text)).toBe(text));

  it("is more in values than in prose", () => {
    expect(shownValue("token: expired")).toBe("token: *");
    expect(shownValue('key="a1%"')).toBe('key="*"');
    expect(shownValue("password=is")).toBe("password=*");
  });
});
