// The tasks of a run: ten thousand of them by the page, with filters; one opened shows its evidence and its log.

import { get } from "/api.js";
import { h, patch, setText } from "/dom.js";
import { makeLog } from "/log.js";
import { TASK_STATES, cause, crawled, inWords, lasting, number, pill, setBar, setLasting, setPill } from "/words.js";

const PAGE = 100;
const MOST_OPEN = 3; // each follows a log, and browsers allow few connections

// `again(error)`: what could not be read is to be read once more.
// `place`: what the address says of them, so that a reload shows the same.
export function makeTasks(id, place, signal, again) {
  let status = TASK_STATES.includes(place.get("status")) ? place.get("status") : null;
  const begun = Number.parseInt(place.get("first"), 10);
  let firsts = begun > 0 ? [0, begun] : [0]; // where the pages up to this one begin
  let page = { tasks: [], total: 0, next: null };
  let all = {};
  let asked = 0;
  let answered = 0; // the latest of those asked for
  const opened = new Map(); // task number: what is shown below its line

  const chips = h("div", { class: "chips", role: "group", "aria-label": "Task status" });
  const meter = h("div", { class: "meter wide" });
  const body = h("tbody");
  const go = (change) => { change(); drawChips(); keepPlace(); return load(); };
  const turn = async (change) => { await go(change); element.scrollIntoView({ block: "start" }); };
  const next = h("button", { type: "button", onclick: () => page.next && turn(() => firsts.push(page.next)) }, "Next");
  const previous = h("button", { type: "button", onclick: () => turn(() => firsts.pop()) }, "Previous");
  const jump = h("input", {
    type: "text", inputmode: "numeric", class: "jump", "aria-label": "Go to task", placeholder: "task no.",
    onchange: (event) => {
      const wanted = Number.parseInt(event.target.value, 10);
      event.target.value = "";
      if (wanted >= 0) go(() => { firsts = wanted ? [0, wanted] : [0]; });
    },
  });
  const range = h("span", { class: "quiet num" });
  const pager = h("nav", { class: "pager", "aria-label": "Pages of tasks" }, previous, range, jump, next);
  const empty = h("p", { class: "empty", hidden: true });
  const element = h("section", { class: "card", "aria-label": "Tasks" },
    h("div", { class: "tools" }, h("h2", {}, "Tasks"), chips), meter,
    h("table", { class: "list tasks" },
      h("thead", {}, h("tr", {}, ["Task", "Status", "Why", "Exit", "Node", "Took"].map((name) => h("th", { scope: "col" }, name)))),
      body),
    empty, pager);

  const chosen = () => String(new URLSearchParams({ first: firsts.at(-1), limit: PAGE, ...(status ? { status } : {}) }));

  function keepPlace() {
    const kept = new URLSearchParams({
      ...(status ? { status } : {}), ...(firsts.at(-1) ? { first: firsts.at(-1) } : {}),
      ...(opened.size ? { open: [...opened.keys()].join(".") } : {}),
    });
    history.replaceState(null, "", `#/runs/${encodeURIComponent(id)}${kept.size ? `?${kept}` : ""}`);
  }

  async function load() {
    const query = chosen();
    const mine = ++asked;
    try {
      const found = await get(`/v1/runs/${encodeURIComponent(id)}/tasks?${query}`, signal);
      if (mine < answered || query !== chosen()) return; // it comes too late
      answered = mine;
      page = found;
      draw();
    } catch (error) {
      if (signal.aborted || query !== chosen()) return;
      if (error.status !== 404) say(error.message);
      again(error);
    }
  }

  function draw() {
    const lines = page.tasks.flatMap((task) => (opened.has(task.task) ? [{ task }, { task, below: true }] : [{ task }]));
    patch(body, lines, (line) => `${line.task.task}${line.below ? "-below" : ""}`, make, update);
    const [begin, end] = [page.tasks[0]?.task ?? 0, page.tasks.at(-1)?.task ?? 0];
    setText(range, page.tasks.length ? `${number(begin)}\u2013${number(end)} of ${number(page.total)}` : "");
    previous.hidden = firsts.length === 1;
    next.hidden = page.next === null;
    pager.hidden = previous.hidden && next.hidden;
    say(page.tasks.length ? "" : "No such tasks.");
  }

  function drawChips() {
    const states = [null, ...TASK_STATES.filter((state) => all[state] || state === status)];
    patch(chips, states, (state) => state ?? "all",
      (state) => h("button", { type: "button", class: "chip", onclick: () => go(() => { status = state; firsts = [0]; }) }),
      (chip, state) => {
        const count = state ? all[state] ?? 0 : Object.values(all).reduce((sum, each) => sum + each, 0);
        setText(chip, `${state ? state.toLowerCase() : "all"} ${number(count)}`);
        chip.setAttribute("aria-pressed", String(state === status));
      });
  }

  function say(text) {
    empty.hidden = !text;
    setText(empty, text);
  }

  function make({ task, below }) {
    if (below) return h("tr", { class: "below" }, h("td", { colspan: 6 }, opened.get(task.task).element));
    const toggle = h("button", {
      type: "button", class: "open", "aria-expanded": "false", onclick: () => open(task.task),
    }, task.task === 0 ? "0 (main)" : String(task.task));
    return h("tr", {},
      h("td", { class: "id" }, toggle), h("td", { class: "state" }, pill(task.status)), h("td", { class: "why" }),
      h("td", { class: "exit num" }), h("td", { class: "node quiet" }), h("td", { class: "took quiet" }, lasting(null)));
  }

  function update(row, { task, below }) {
    if (below) return opened.get(task.task).update(task);
    const [name, state, why, exit, node, took] = row.children;
    name.firstChild.setAttribute("aria-expanded", String(opened.has(task.task)));
    setPill(state.firstChild, task.status);
    const attempt = task.attempt > 1 ? ` (attempt ${task.attempt})` : "";
    const words = task.finished_at ? inWords(task.reason) : task.cause ? `waits for ${cause(task.cause)}` : "";
    setText(why, words + attempt);
    setText(exit, task.exit_code === null ? "" : String(task.exit_code));
    setText(node, task.node ?? "");
    setLasting(took.firstChild, task.started_at, task.finished_at);
  }

  function open(task) {
    const known = opened.get(task);
    if (known) {
      known.close();
      opened.delete(task);
    } else {
      if (opened.size === MOST_OPEN) open(opened.keys().next().value);
      opened.set(task, makeEvidence(id, task, signal, again));
    }
    keepPlace();
    draw();
  }

  for (const task of (place.get("open") ?? "").split(".").slice(0, MOST_OPEN)) {
    if (/^\d{1,9}$/.test(task)) opened.set(Number(task), makeEvidence(id, Number(task), signal, again));
  }

  async function show(task) {
    if (!opened.has(task)) open(task);
    await turn(() => { status = null; firsts = task ? [0, task] : [0]; });
  }

  return {
    element,
    load,
    show,
    know: (tasks) => {
      all = tasks;
      setBar(meter, all);
      drawChips();
    },
  };
}

const accountOf = ({ outcome, stats, result }) =>
  [outcome, crawled(stats), result === null ? "" : JSON.stringify(result)].filter(Boolean).join(", ");

function makeEvidence(id, task, signal, again) {
  const closed = new AbortController();
  signal.addEventListener("abort", () => closed.abort());
  const message = h("p", { class: "message", hidden: true });
  const said = h("p", { class: "message", hidden: true });
  const events = h("ul", { class: "events", hidden: true });
  const log = makeLog(id, task, closed.signal);
  let shown = "";

  async function update(line) {
    const state = `${line.status}${line.attempt}${line.restarts}${line.message}`;
    if (state === shown) return;
    shown = state;
    try {
      const { message: text, events: lines, crawl_result: result } = await get(`/v1/runs/${encodeURIComponent(id)}/tasks/${task}`, closed.signal);
      message.hidden = !text;
      setText(message, text ?? "");
      said.hidden = !result;
      setText(said, result ? `The crawl said: ${accountOf(result)}` : "");
      events.hidden = !lines.length;
      events.replaceChildren(...lines.map((each) => h("li", {}, each)));
    } catch (error) {
      shown = ""; // with the tasks, when they are read next
      if (!closed.signal.aborted) again(error);
    }
  }

  return { element: h("div", { class: "evidence" }, message, said, events, log), update, close: () => closed.abort() };
}
