import { chmodSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";

import { grant, OBJECTS, teamModule } from "./tenants.ts";
import { bareStory } from "./bare-story.ts";
import type { PageState } from "./scene.ts";
import type { Story } from "./story.ts";

const teamOf = ({ namespace }: PageState): string => `${namespace}-team`;

/** A module with an account of its own, whose hooks leave their token before and after helm, and at the deletion. */
async function openTeam(pageState: PageState): Promise<void> {
  const { cluster, namespace, dir } = pageState;
  const team = teamOf(pageState);
  const account = { name: "deployer", namespace: team };
  await cluster.apply(
    { apiVersion: "v1", kind: "Namespace", metadata: { name: team } },
    { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace } },
  );
  await grant(team, account, [OBJECTS]);
  teamModule(pageState, "web", { namespace: team, account, id: `${team}/deployer` });
  for (const binding of ["beforeHelm", "afterHelm", "afterDeleteHelm"]) {
    const config = JSON.stringify({ configVersion: "v1", [binding]: 1 });
    pageState.file(
      `modules/010-web/hooks/${binding}.sh`,
      `#!/bin/sh
if [ "$1" = --config ]; then echo '${config}'; exit 0; fi
cp "$(dirname "$KUBECONFIG")/token" "$SCENE/tokens/${binding}"
`,
    );
  }
  // Hooks run under a user id of their own.
  chmodSync(dir, 0o755);
  mkdirSync(join(dir, "tokens"));
  chmodSync(join(dir, "tokens"), 0o777);
  // Each hook needs a new token.
  pageState.proxy.rewrite(
    ({ method, path }) => method === "POST" && path.endsWith("/token"),
    (body) => {
      const request = JSON.parse(body) as { spec?: object };
      return JSON.stringify({ ...request, spec: { ...request.spec, expirationSeconds: 1 } });
    },
  );
}

const options = () => ({
  args: ["--service-account-namespaces=*"],
  env: { TMPDIR: "/tmp" },
});

/** The user that a token names. */
function userOf(token: string): string {
  const claims = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
  return (JSON.parse(claims) as { sub: string }).sub;
}

/** As whom hooks have acted, and the Secrets and files of tokens that are left: none. */
async function lookAtTeam(pageState: PageState, hooks: readonly string[]): Promise<object> {
  const { cluster, dir, scratch } = pageState;
  const team = teamOf(pageState);
  const users = hooks.map((hook) => `${hook} ${userOf(readFileSync(join(dir, "tokens", hook), "utf8"))}`);
  expect(users).toEqual(hooks.map((hook) => `${hook} system:serviceaccount:${team}:deployer`));
  const names = (kind: string, selector: string): Promise<string> =>
    cluster.kubectl(["get", kind, "-n", team, "-l", selector, "-o", "name"]);
  const files = scratch().flatMap((name) => readdirSync(join(dir, "tmp", name)));
  return {
    users,
    maps: await names("configmaps", "app.kubernetes.io/managed-by=Helm"),
    // A helm that failed, and was repeated, has left a revision more.
    releases: [...new Set((await names("secrets", "owner=helm")).replaceAll(/\.v\d+$/gm, "").split("\n"))],
    tokens: await names("secrets", "app.kubernetes.io/managed-by=addon-operator"),
    files: files.filter((name) => name.includes("token")),
  };
}

const begun = ["beforeHelm", "afterHelm"];
const story = { options, furnish: openTeam };

/** Hooks of a module act as its account, with tokens that end with the run. */
export const ACCOUNT_STORIES: readonly Story[] = [
  bareStory({ ...story, name: "account", look: (pageState) => lookAtTeam(pageState, begun) }),
  bareStory({
    ...story,
    name: "account-delete",
    begins: (pageState) => lookAtTeam(pageState, begun),
    act: (pageState) => pageState.configure({ webEnabled: "false" }),
    look: (pageState) => lookAtTeam(pageState, [...begun, "afterDeleteHelm"]),
  }),
];
