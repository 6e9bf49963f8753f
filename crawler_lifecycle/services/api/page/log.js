// What a task prints, as it prints it.

import { follow } from "/api.js";
import { h, setText, visible } from "/dom.js";

const TAIL = 65_536;
const MOST = 400_000; // characters that are kept
// Colours and movements of a terminal, and links and titles for it.
const TERMINAL_CODES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g;
const UNFINISHED = /(?:\r|\u001b(?:\[[0-9;?]*[ -/]*|\][^\u0007\u001b]{0,500}\u001b?)?)$/;

export function makeLog(id, task, signal) {
  const text = h("pre", { class: "log", tabindex: "0", "aria-label": `Log of task ${task}` });
  const state = h("span", { class: "quiet" }, "following");
  const omitted = h("p", { class: "quiet omitted", hidden: true }, "Earlier lines are not shown.");
  let attempt = null;
  let cut = ""; // the beginning of a terminal code whose end comes later
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
      append(attempt === null ? fromALine(data) : data.text);
      attempt = data.attempt;
      setText(state, kind === "end" ? (text.textContent ? "end of the log" : "nothing was printed") : "following");
      return kind;
    },
  });

  // The last bytes of a long log begin somewhere in a line.
  function fromALine({ text: first, offset }) {
    omitted.hidden = offset <= new TextEncoder().encode(first).length || !first;
    return omitted.hidden ? first : first.slice(first.indexOf("\n") + 1);
  }

  function append(given) {
    const whole = cut + given;
    cut = UNFINISHED.exec(whole)?.[0] ?? "";
    const more = visible(whole.slice(0, whole.length - cut.length).replace(TERMINAL_CODES, "").replace(/\r\n?/g, "\n"));
    if (!more) return;
    const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    text.append(more);
    while (text.textContent.length > MOST && text.childNodes.length > 1) text.firstChild.remove();
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  return h("div", { class: "logs" }, h("div", { class: "tools" }, h("h3", {}, `Log of task ${task}`), state), omitted, text);
}
