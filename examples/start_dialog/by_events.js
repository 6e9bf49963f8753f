// Notices of a run by server-sent events from the HTTP API. `EventSource` cannot send a token, so this reads with fetch.

import { pause } from "./notices.js";

const AGAIN = 1000; // milliseconds before another try
const FOR_GOOD = [401, 403, 404, 422];

export const byEvents = ({ api, token, run }) => async ({ announce, confirmed, failed, signal }) => {
  let last = null; // id of the last event: the API goes on behind it
  while (!signal.aborted) {
    try {
      const headers = { Authorization: `Bearer ${token}`, ...(last && { "Last-Event-ID": last }) };
      const response = await fetch(`${api}/v1/changes?run=${run}`, { headers, signal, cache: "no-store" });
      if (FOR_GOOD.includes(response.status)) return failed(new Error((await response.json()).detail));
      if (response.ok) {
        for await (const { event, data, id } of events(response.body)) {
          last = id ?? last;
          if (event === "ready" || event === "reset") confirmed();
          if (event === "notice") announce(JSON.parse(data));
        }
      }
    } catch {
      // the connection broke: the next one goes on behind the last event
    }
    await pause(AGAIN);
  }
};

async function* events(body) {
  let text = "";
  for await (const part of chunks(body.pipeThrough(new TextDecoderStream()))) {
    const blocks = (text + part).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => !line.startsWith(":"));
      if (lines.length) yield Object.fromEntries(lines.map((line) => line.split(/: (.*)/s)));
    }
  }
}

async function* chunks(stream) {
  const reader = stream.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}
