// What happens to the runs, as it happens: one stream for the whole page.

import { follow } from "/api.js";

const SILENT = 4500; // the API says something every two seconds
const listeners = new Set();
let state = "connecting";
let stopped = new AbortController();

// `listener({kind, run, notice})`: "run", "notice", "ready" when everything should be read (again), or "state" when the
// connection has come or gone, `since` then and `isFinal` for good.
export function listen(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

export function goLive() {
  stopped.abort();
  stopped = new AbortController();
  state = "connecting";
  follow("/v1/changes?flows=true", {
    silent: SILENT,
    signal: stopped.signal,
    told: tell,
    event: ({ kind, data }) => {
      if (kind === "run" || kind === "notice") emit({ kind, [kind]: data });
      else if (kind === "problem") tell(data.detail, false, new Date().toISOString());
      else readAgain();
    },
  });
}

export const readAgain = () => emit({ kind: "ready" });
export const stopLive = () => stopped.abort();

function tell(next, isFinal, since) {
  if (next === state) return;
  state = next;
  emit({ kind: "state", state, isFinal, since });
}

function emit(message) {
  for (const listener of [...listeners]) listener(message);
}
