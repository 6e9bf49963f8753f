// What a task prints, as it prints it.

import { follow } from "/api.js";
import { h, setText } from "/dom.js";

const TAIL = 65_536;
const MOST = 400_000; // characters that are kept

export function makeLog(id, task, signal) {
  const text = h("pre", { class: "log", tabindex: "0", "aria-label": `Log of task ${task}` });
  const state = h("span", { class: "quiet" }, "following");
  let attempt = null;
  const path = `/v1/runs/${encodeURIComponent(id)}/logs/stream?task=${task}&offset=${-TAIL}`;
  follow(path, {
    signal,
    final: [401, 403, 404],
    begun: () => setText(state, "following"),
    told: (how) => { if (how !== "live") setText(state, how); },
    event: ({ kind, data }) => {
      if (kind === "problem") {
        setText(state, data.detail);
        return kind;
      }
      if (attempt !== null && data.attempt !== attempt) text.replaceChildren();
      attempt = data.attempt;
      append(data.text);
      setText(state, kind === "end" ? (text.textContent ? "end of the log" : "nothing was printed") : "following");
      return kind;
    },
  });

  function append(more) {
    if (!more) return;
    const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    text.append(more);
    while (text.textContent.length > MOST && text.childNodes.length > 1) text.firstChild.remove();
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  return h("div", { class: "logs" }, h("div", { class: "tools" }, h("h3", {}, `Log of task ${task}`), state), text);
}
