import { expect, test } from "vitest";

import { findChartFiles } from "../../../src/helm/chart/chart.ts";
import { directories } from "../module-directories.ts";

// docs/guides/tenancy.md, "Which boundaries hold": a link makes the operator read nothing for a team.

const ACCOUNT = "serviceAccountName: deployer\n";
const MESSAGE = "is a link out of the modules directory, and the module has a serviceAccountName";

test.each(["values.yaml", "openapi/values.yaml", "crds/a.yaml", "hooks/a", "Chart.yaml"])(
  "%s of a module with an account that links to a file elsewhere is refused, and its content is not read",
  async (rel) => {
    const on = await directories();
    await on.put("elsewhere", "token: hidden-text\n", 0o755);
    for (const name of ["1-team", "2-own"]) await on.link(`m/${name}/${rel}`, on.at("elsewhere"));
    await on.put("m/1-team/addon.yaml", ACCOUNT);
    const [team, own] = (await on.read()).modules;
    expect(team?.problem).toEqual({
      file: on.at(`m/1-team/${rel}`),
      message: MESSAGE,
      remedy: "replace it by a copy of what it leads to",
    });
    expect(team?.serviceAccountName).toBe("deployer");
    expect(JSON.stringify(team)).not.toContain("hidden-text");
    // Without an account, a module is code that the operator trusts.
    expect(own?.problem?.message).not.toBe(MESSAGE);
  },
);

test("links between modules, and a modules directory that is a link, are as before", async () => {
  const on = await directories();
  await on.put("v1/1-base/shared.tpl", "");
  await on.put("v1/2-team/Chart.yaml", "name: team\nversion: 1.0.0\n");
  await on.put("v1/2-team/addon.yaml", ACCOUNT);
  await on.link("v1/2-team/templates/shared.tpl", "../../1-base/shared.tpl");
  await on.put("elsewhere/3-far/values.yaml", "far: {}\n");
  await on.put("elsewhere/3-far/addon.yaml", ACCOUNT);
  await on.link("v1/3-far", "../elsewhere/3-far");
  await on.link("current", "v1");
  const { modules } = await on.read(undefined, { dirs: ["current"] });
  expect(modules.map(({ problem }) => problem)).toEqual([undefined, undefined, undefined]);
  const [, team] = modules;
  expect(team && findChartFiles(team).map(({ rel }) => rel)).toContain("templates/shared.tpl");
});

test("helm gets no file of a chart that links elsewhere, where the module has an account", async () => {
  const on = await directories();
  await on.put("elsewhere/token", "hidden-text");
  await on.put("m/1-team/Chart.yaml", "name: team\nversion: 1.0.0\n");
  await on.put("m/1-team/addon.yaml", ACCOUNT);
  await on.link("m/1-team/files", on.at("elsewhere"));
  const [team] = (await on.read()).modules;
  if (team === undefined) throw new Error("no module");
  expect(() => findChartFiles(team)).toThrow(MESSAGE);
  const { serviceAccountName: _, ...trusted } = team;
  expect(findChartFiles(trusted).map(({ rel }) => rel)).toContain("files/token");
});
