import { addressOf, cause, chipGroup, crawled, drawChips, emptyLine, fill, get, h, inWords, lasting, number, pill, press, say, setBar, setText, sum, TASK_STATES } from "/kit.js";
import { drawChart } from "/chart.js";
import { makeLog } from "/log.js";
import { makeGrid } from "/table.js";

const PAGE = 100;
const MOST_OPEN = 3; // each follows a log, and browsers allow few connections

// `again(error)`: what could not be read is to be read once more.
// `place`: what the address says of them, so that a reload shows the same.
export function makeTasks(id, place, signal, again) {
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  let status = TASK_STATES.includes(place.get("status")) ? place.get("status") : null;
  let order = place.get("sort") ?? "task"; // of all tasks; other than by number, a page begins at a place in it
  const begun = Number.parseInt(place.get("first"), 10);
  let firsts = begun > 0 ? [0, begun] : [0]; // where the pages up to this one begin
  let page = { tasks: [], total: 0, next: null };
  let all = {};
  let asked = 0;
  let answered = 0; // the latest of those asked for
  const opened = new Map(); // task number: what is shown below its line

  const chips = chipGroup("Task status");
  const meter = h("div.meter.wide");
  const grid = makeGrid("tasks", {
    "Task|id": ({ key }) => h("button.open", { "aria-expanded": String(opened.has(key)), onclick: () => open(key) }, key ? String(key) : "0 (main)"),
    "Status|state": ({ status: now }) => pill(now),
    "Why|why": (task) => [task.finished_at ? inWords(task.reason) : task.cause && `waiting for ${cause(task.cause)}`, task.attempt > 1 && ` (attempt ${task.attempt})`],
    "Exit|exit num": (task) => task.exit_code,
    "Node|node": (task) => task.node,
    "Took|took": (task) => lasting(task.started_at, task.finished_at),
  }, {
    below: ({ key }) => opened.get(key)?.element,
    orders: { Task: "task", Status: "status", Exit: "exit_code", Took: "duration" },
    sort: (wanted) => go(() => { order = order === `-${wanted}` ? wanted : `-${wanted}`; firsts = [0]; }),
  });
  const reach = (task) => { order = "task"; firsts = task ? [0, task] : [0]; };
  const go = (change) => { change(); redrawChips(); keepPlace(); return load(); };
  const turn = async (change) => { await go(change); element.scrollIntoView({ block: "start" }); };
  const next = h("button", () => page.next && turn(() => firsts.push(page.next)), "Next");
  const previous = h("button", () => turn(() => firsts.pop()), "Previous");
  const jump = h("input", {
    type: "text", inputmode: "numeric", class: "jump", "aria-label": "Go to task", placeholder: "task no.",
    onchange: (event) => {
      const wanted = Number.parseInt(event.target.value, 10);
      event.target.value = "";
      if (wanted >= 0) go(() => reach(wanted));
    },
  });
  const chart = h("div.chart", { hidden: true });
  const inTime = h("button.chip", () => { chart.hidden = !chart.hidden; draw(); }, "Gantt");
  const range = h("span.quiet.num");
  const pager = h("nav.pager", { "aria-label": "Pages of tasks" }, previous, range, jump, next);
  const empty = emptyLine();
  const element = h("section.card", { "aria-label": "Tasks" },
    h("div.tools", h("h2", "Tasks"), chips, inTime), meter, chart,
    grid.element, empty, pager);

  const chosen = () => addressOf(`${path}/tasks`, { first: firsts.at(-1), limit: PAGE, sort: order, status });
  const keepPlace = () => history.replaceState(null, "", addressOf(`#/runs/${encodeURIComponent(id)}`, {
    status, sort: order !== "task" && order, first: firsts.at(-1), open: [...opened.keys()].join("."),
  }));

  async function load() {
    const query = chosen();
    const mine = ++asked;
    try {
      const found = await get(query, signal);
      if (mine < answered || query !== chosen()) return; // it comes too late
      answered = mine;
      page = found;
      draw();
    } catch (error) {
      if (signal.aborted || query !== chosen()) return;
      if (error.status !== 404) say(empty, error.message);
      again(error);
    }
  }

  function draw() {
    for (const task of page.tasks) opened.get(task.task)?.update(task);
    grid.show(page.tasks.map((task) => ({ key: task.task, ...task })), order);
    grid.element.hidden = !chart.hidden;
    press(inTime, !chart.hidden);
    if (!chart.hidden) drawChart(chart, page.tasks.map(inParts));
    const ends = order === "task" ? [page.tasks[0]?.task, page.tasks.at(-1)?.task] : [firsts.at(-1) + 1, firsts.at(-1) + page.tasks.length];
    setText(range, page.tasks.length ? `${ends.map(number).join("–")} of ${number(page.total)}` : "");
    previous.hidden = firsts.length === 1;
    next.hidden = page.next === null;
    pager.hidden = previous.hidden && next.hidden;
    say(empty, page.tasks.length ? "" : "No such tasks.");
  }

  const redrawChips = () => drawChips(chips, TASK_STATES.filter((state) => all[state] || state === status), (state) => sum(all, state),
    (state) => state === status, (state) => go(() => { status = state; firsts = [0]; }));

  function open(task) {
    const known = opened.get(task);
    if (known) {
      known.close();
      opened.delete(task);
    } else {
      if (opened.size === MOST_OPEN) open(opened.keys().next().value);
      opened.set(task, makeEvidence(path, task, signal, again));
    }
    keepPlace();
    draw();
  }

  for (const task of (place.get("open") ?? "").split(".").slice(0, MOST_OPEN)) {
    if (/^\d{1,9}$/.test(task)) opened.set(Number(task), makeEvidence(path, Number(task), signal, again));
  }

  async function show(task, isWanted = true) {
    if (!opened.has(task)) open(task);
    await (isWanted ? turn : go)(() => { status = null; reach(isWanted ? task : 0); });
  }

  return {
    element,
    load,
    show,
    know: (tasks) => {
      all = tasks;
      setBar(meter, all);
      redrawChips();
    },
  };
}

const inParts = ({ task, status, queued_at: queued, deployed_at: deployed, started_at: started, finished_at: finished }) => ({
  name: `task ${task}`,
  parts: [["QUEUED", queued, deployed], ["PENDING", deployed, started], [status, started, finished]].filter(([, from]) => from)
    .map(([state, from, to]) => ({ status: state, from, to: to ?? finished })),
});

const accountOf = ({ outcome, stats, result }) =>
  [outcome, crawled(stats), result === null ? "" : JSON.stringify(result)].filter(Boolean).join(", ");

function makeEvidence(path, task, signal, again) {
  const closed = new AbortController();
  signal.addEventListener("abort", () => closed.abort());
  const message = h("p.message", { hidden: true });
  const said = h("p.message", { hidden: true });
  const events = h("ul.events", { hidden: true });
  const log = makeLog(path, task, closed.signal);
  let shown = "";

  async function update(line) {
    const state = `${line.status}${line.attempt}${line.restarts}${line.message}`;
    if (state === shown) return;
    shown = state;
    try {
      const { message: text, events: lines, crawl_result: result } = await get(`${path}/tasks/${task}`, closed.signal);
      say(message, text);
      say(said, result && `The crawl reported: ${accountOf(result)}`);
      events.hidden = !lines.length;
      fill(events, lines.map((each) => h("li", each)));
    } catch (error) {
      shown = ""; // with the tasks, when they are read next
      if (!closed.signal.aborted) again(error);
    }
  }

  return { element: h("div.evidence", message, said, events, log), update, close: () => closed.abort() };
}
