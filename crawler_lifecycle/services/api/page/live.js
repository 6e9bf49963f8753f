// What happens to the runs, as it happens: one stream for the whole page.

import { follow } from "/api.js";

const listeners = new Set();
let state = "connecting";
let stopped = new AbortController();

// `listener({kind, run, notice})`: kind is "run" with the run as it is now, "notice" with what was announced of one,
// "ready" when everything should be read (again), "state" when the connection has come or gone.
export function listen(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

export const liveState = () => state;

export function goLive() {
  stopped.abort();
  stopped = new AbortController();
  follow("/v1/changes", {
    signal: stopped.signal,
    told: (next) => tell(next),
    event: ({ kind, data }) => {
      if (kind === "run") emit({ kind, run: data });
      else if (kind === "notice") emit({ kind, notice: data });
      else if (kind === "problem") tell(data.detail);
      else emit({ kind: "ready" });
    },
  });
}

function tell(next) {
  if (next === state) return;
  state = next;
  emit({ kind: "state", state });
}

function emit(message) {
  for (const listener of [...listeners]) listener(message);
}
