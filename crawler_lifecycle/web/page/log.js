// What a task prints: lines with levels and colours.

import { attempt, choice, follow, h, number, press, save, searchField, setText, visible } from "/kit.js";

const TAIL = 65_536;
const LONGEST_TAIL = 2 ** 20;
const MORE = 400_000; // characters that are kept, beside the tail
const FURTHER = 4; // times the tail, each time that somebody asks for what is before
// Codes for a terminal; the last of them may not have come whole.
const TERMINAL_CODE = /\u001b(?:\[([0-9;?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|(?:\[[0-9;?]*[ -/]*|\][^\u0007\u001b]{0,500}\u001b?)?$)/g;
const LEVEL = /\b(?:(DEBUG|TRACE)|(INFO)|(WARN(?:ING)?)|(ERROR|CRITICAL|FATAL))\b/;
const LEVELS = { 0: "all levels", 2: "info and above", 3: "warnings", 4: "errors" };
const STAMP = /^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*/;

export function makeLog(path, task, signal) {
  let tail = TAIL;
  let stream = new AbortController();
  let attemptShown = null;
  let last = ""; // the last line, which may go on
  let look = {}; // of the text where the last line begins: its ink, its weight, its level
  let kept = 0; // characters
  const text = h("pre.log", { tabindex: "0", "aria-label": `Log of task ${task}` });
  const state = h("span.quiet", { role: "status" });
  const count = h("span.quiet.num");
  const omitted = h("p.quiet.omitted", { hidden: true }, "Earlier lines are not shown. ",
    h("button.link", () => { tail *= FURTHER; begin(); }, "Show more of them"));
  const search = searchField("Find lines", { oninput: sieve });
  const level = choice("Level", LEVELS, null, sieve);
  const wrap = h("button.chip", {
    "aria-pressed": "true", onclick: () => press(wrap, !text.classList.toggle("long")),
  }, "Wrap");
  const whole = h("button.chip", {
    onclick: ({ target }) => attempt(target, () => save(`${path}/logs?task=${task}`, `task-${task}.log`, { Accept: "text/plain" })),
  }, "Download");

  function begin() {
    stream.abort();
    stream = new AbortController();
    attemptShown = null;
    setText(state, "following");
    follow(`${path}/logs/stream?task=${task}&offset=${-tail}`, {
      signal: AbortSignal.any([signal, stream.signal]),
      final: [401, 403, 404, 410],
      begun: () => setText(state, "following"),
      told: (how) => { if (how !== "live") setText(state, how); },
      event: ({ kind, data }) => {
        if (kind === "problem") {
          setText(state, data.detail);
          return kind;
        }
        if (attemptShown !== data.attempt) clear();
        append(attemptShown === null ? fromALine(data) : data.text);
        attemptShown = data.attempt;
        setText(state, kind === "end" ? (text.firstChild ? "end of the log" : "nothing was printed") : "following");
        return kind;
      },
    });
  }

  function clear() {
    text.replaceChildren();
    [last, look, kept] = ["", {}, 0];
  }

  // The last bytes of a long log begin somewhere in a line.
  function fromALine({ text: first, offset }) {
    omitted.hidden = offset <= new TextEncoder().encode(first).length || !first;
    omitted.lastChild.hidden = tail >= LONGEST_TAIL;
    return omitted.hidden ? first : first.slice(first.indexOf("\n") + 1);
  }

  function append(given) {
    const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
    const lines = (last + given).split(/\r\n|\n|\r(?!$)/);
    if (last) text.lastChild?.remove();
    last = lines.pop();
    for (const line of lines) look = add(`${line}\n`, look);
    if (last) add(last, look);
    for (kept += given.length; kept > tail + MORE && text.childNodes.length > 1; text.firstChild.remove()) {
      kept -= text.firstChild.textContent.length;
    }
    tell();
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  // Returns how the next line begins.
  function add(line, { ink = "", bold = "", rank = 0 }) {
    const parts = [];
    let from = 0;
    const put = (to) => {
      const shown = visible(line.slice(from, to).replace(/\r$/, ""));
      if (shown) parts.push(ink || bold ? h("span", { dataset: { ink, bold } }, shown) : shown);
    };
    for (const code of line.matchAll(TERMINAL_CODE)) {
      put(code.index);
      from = code.index + code[0].length;
      if (code[2] === "m") [ink, bold] = painted(code[1], ink, bold);
    }
    put(line.length);
    const stamp = typeof parts[0] === "string" && STAMP.exec(parts[0]);
    if (stamp) parts.splice(0, 1, h("time", stamp[0]), parts[0].slice(stamp[0].length));
    const row = h("div", parts);
    const level = LEVEL.exec(row.textContent.slice(0, 200));
    if (level) rank = level.findIndex((each, place) => place && each);
    row.dataset.rank = rank;
    row.hidden = !fits(row);
    text.append(row);
    return { ink, bold, rank };
  }

  const isSieved = () => search.value || level.value > 0;
  const fits = (row) => row.dataset.rank >= level.value && row.textContent.toLowerCase().includes(search.value.toLowerCase());

  function sieve() {
    for (const row of text.children) row.hidden = !fits(row);
    tell();
  }

  function tell() {
    const [found, all] = [text.querySelectorAll(":scope > :not([hidden])").length, text.children.length];
    setText(count, isSieved() ? `${number(found)} of ${number(all)} lines` : "");
  }

  begin();
  return h("div.logs", h("div.tools", h("h3", `Log of task ${task}`), state, count, level, search, wrap, whole), omitted, text);
}

// Ink and weight behind a code for them.
function painted(codes, ink = "", bold = "") {
  const numbers = codes.split(";").map(Number);
  for (let place = 0; place < numbers.length; place += 1) {
    const code = numbers[place];
    if (code === 0) [ink, bold] = ["", ""];
    else if (code === 38 || code === 48) place += numbers[place + 1] === 5 ? 2 : 4;
    else if (code === 1 || code === 22) bold = code === 1 ? "1" : "";
    else if (code === 39) ink = "";
    else if (code % 10 < 8 && [3, 9].includes(Math.floor(code / 10))) ink = String(code % 10);
  }
  return [ink, bold];
}
