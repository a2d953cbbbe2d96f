/** The page in the browser: draws what the operator tells. */

import { render } from "preact";

import { App } from "./app.tsx";
import { follow } from "./live.ts";

const place = document.querySelector("#page");
if (place !== null) {
  follow();
  render(<App />, place);
}
