/** The entry point of the page in the browser. */

import { render } from "preact";

import { App } from "./app.tsx";
import { startStream } from "./live.ts";

const place = document.querySelector("#page");
if (place !== null) {
  startStream();
  render(<App />, place);
}
