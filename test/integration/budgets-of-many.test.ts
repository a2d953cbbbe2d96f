// Runs at night: sizes.
import { test } from "vitest";

import { measureModules } from "../support/budgets.ts";

test("200 modules", { timeout: 400_000 }, () => measureModules(200));
