// Sends reviews to the webhook server over HTTP/1.1.
import { request } from "node:https";

/** The body of the answer. Rejects if the status is not 200. */
export function post(url, agent, body) {
  return new Promise((resolve, reject) => {
    const call = request(url, { agent, method: "POST", headers: { "content-type": "application/json" } });
    call.once("error", reject);
    call.once("response", (response) => resolve(readAnswer(response)));
    call.end(body);
  });
}

async function readAnswer(response) {
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  if (response.statusCode === 200) return text;
  throw new Error(`${response.statusCode} ${text.slice(0, 300)}`);
}
