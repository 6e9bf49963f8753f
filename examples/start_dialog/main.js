// A page that starts a run. Its dialog closes itself when the run has started, or says why the run never will.
// The address's fragment configures the page: #api=...&token=...&crawler=... and, for Pusher, &pusher=...&key=...

import { byEvents } from "./by_events.js";
import { byPusher } from "./by_pusher.js";
import { firstNotice, pause } from "./notices.js";

const { api, token, crawler, pusher, key } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const [button, dialog, line, outcome] = ["start", "dialog", "line", "outcome"].map((id) => document.getElementById(id));
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };

button.onclick = async () => {
  const closing = new AbortController();
  dialog.onclose = () => closing.abort(new Error("the dialog was closed; the run goes on"));
  outcome.textContent = "";
  line.textContent = `Starting ${crawler} ...`;
  dialog.showModal();
  try {
    const run = await start();
    line.textContent = `Run ${run} waits for its start ...`;
    const subscribe = pusher ? byPusher({ server: pusher, key, run }) : byEvents({ api, token, run });
    const read = async () => (await call(`/v1/runs/${run}`)).notices;
    const notice = await firstNotice({ subscribe, read, signal: closing.signal });
    outcome.textContent = notice.kind === "started"
      ? `Run ${run} has started.`
      : `Run ${run} never started: ${notice.explanation?.text ?? notice.reason}`;
  } catch (error) {
    outcome.textContent = error.message;
  } finally {
    dialog.close();
  }
};

// In your application, your own server starts the run: a token that may start runs belongs into no page of the public.
// The key makes one run of all tries, also if an answer is lost.
async function start() {
  const idempotency = { "Idempotency-Key": [...crypto.getRandomValues(new Uint8Array(16))].join("-") };
  while (true) {
    try {
      return (await call("/v1/runs", { method: "POST", headers: idempotency, body: JSON.stringify({ crawler }) })).run_id;
    } catch (error) {
      if (error.status && error.status < 500) throw error;
      await pause(1000);
    }
  }
}

async function call(path, options = {}) {
  const response = await fetch(api + path, { ...options, headers: { ...headers, ...options.headers }, cache: "no-store" });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.detail), { status: response.status });
  return answer;
}
