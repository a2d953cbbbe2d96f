import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { Children } from "../../../src/base/process/index.ts";

const FIXTURES = join(dirname(fileURLToPath(import.meta.url)), "../../fixtures/process");
const env = { PATH: process.env.PATH ?? "" };
const children = new Children();

function start(file = join(FIXTURES, "echo.sh")) {
  const lines: string[] = [];
  const first = Promise.withResolvers<void>();
  const onLine = (line: string): void => {
    lines.push(line);
    first.resolve();
  };
  return {
    child: children.coprocess({ file, args: [], cwd: FIXTURES, env, onLine }),
    lines,
    first: first.promise,
  };
}

test("answers come in order, the last ones before the end is reported", async () => {
  const { child, lines } = start();
  for (let i = 0; i < 100; i++) child.send(String(i));
  child.close();
  expect(await child.exited).toMatchObject({ started: true, message: "exit code 0" });
  expect(lines).toEqual([...Array.from({ length: 100 }, (_, i) => `got ${i}`), "bye"]);
  expect(child.isAlive).toBe(false);
});

test("its death reports code and reason", async () => {
  const { child } = start();
  child.send("die");
  expect(await child.exited).toMatchObject({ message: "exit code 4: dying as told" });
  child.send("into the void");
});

test("kill ends it", async () => {
  const { child, first } = start();
  child.send("x");
  await first;
  child.kill();
  expect(await child.exited).toMatchObject({
    message: "ended by SIGKILL, which the system sends when memory is short",
  });
});

test("the end of all children ends it too", async () => {
  const { child, first } = start();
  child.send("x");
  await first;
  await children.endAll(1000);
  expect(child.isAlive).toBe(false);
});

test("a program that is not there ends at once, with the reason", async () => {
  const { child } = start("no-such-program");
  expect(await child.exited).toMatchObject({
    started: false,
    message: "cannot start no-such-program: not found on PATH",
  });
  child.send("x");
  child.kill();
});
