import { afterPaint, bar, crawled, emptyLine, endedBecause, errorRate, fill, get, h, isOpen, isOver, lasting, listen, look, mayOperate, pauseAfter, progress, runLink, setText, skeleton, standing, taskCount, unknownStatus, when } from "/kit.js";
import { LISTED, makeFilters, queryOf } from "/filters.js";
import { askToStop } from "/stop.js";
import { makeGrid } from "/table.js";

const PAGE = 50;
const SETTLE = 400;

export function showRuns({ main, place: filter, keep, signal }) {
  let pages = [null]; // the cursors of the pages up to this one
  let query = ""; // of all these pages
  let runs = new Map();
  let next = null;
  let since = "";
  let pushed = false; // off this page by newer runs, so that the next page begins earlier by now
  let refilling = null;
  let asked = 0;
  let answered = 0; // the latest of those asked for
  let failure = ""; // of the latest answer
  const chosen = new Set();

  const filters = makeFilters(filter, choose, signal);
  const { element: table, show } = makeGrid("runs", {
    "|pick": (run) => mayOperate() && !isOver(run) && h("input.choice", {
      type: "checkbox", checked: chosen.has(run.run_id), "aria-label": `Choose run ${run.run_id}`,
      onchange: ({ target }) => { chosen[target.checked ? "add" : "delete"](run.run_id); draw(); },
    }),
    "Run|id": (run) => runLink(run.run_id, run.run_id),
    "Status|state": standing,
    "Crawler|name": (run) => [h("span", run.crawler), h("small", [run.requested_by, run.trigger].filter(Boolean).join(", "))],
    "Tasks|tasks": (run) => [h("span.num", taskCount(run.tasks)), bar(run.tasks)],
    "Details|why": (run) => {
      const why = isOver(run) ? (run.reason === "all_succeeded" ? "" : endedBecause(run)) : progress(run);
      const [sums, rate] = [crawled(run.stats), errorRate(run.stats)];
      return [why && h("p.because", { title: why }, why), sums && h("p.crawled.num", sums, rate && h("b", rate))];
    },
    "Created|at": (run) => when(run.created_at),
    "Took|took": (run) => lasting(run.begun_at, run.finished_at),
  });
  table.hidden = true;
  const waiting = skeleton();
  const empty = emptyLine();
  const older = h("button", goOlder, "Older");
  const newer = h("button", () => { pages.pop(); load(); }, "Newer");
  const page = h("span.quiet.num");
  const count = h("span.num");
  const bulk = h("div.bulk", { hidden: true, role: "region", "aria-label": "Chosen runs" }, count,
    h("button.danger", stopChosen, "Stop …"),
    h("button", () => { chosen.clear(); draw(); }, "Clear"));
  main.append(
    h("h1", "Runs"),
    filters.element, bulk, waiting, table, empty,
    h("nav.pager", { "aria-label": "Pages" }, newer, page, older),
  );
  keep(location.hash || "#/");

  function choose(address) {
    keep(address);
    history.pushState(null, "", address);
    [pages, runs, next, failure] = [[null], new Map(), null, ""];
    chosen.clear();
    load();
  }

  async function load() {
    failure = unknownStatus("status", [...filter.getAll("status"), ...filter.getAll("listed")], LISTED);
    if (failure) return draw();
    if (!pages.at(-1)) query = queryOf(filter); // "last hour" is that before now
    const wanted = new URLSearchParams(query);
    wanted.set("limit", PAGE);
    const cursor = pages.at(-1);
    if (cursor) wanted.set("cursor", cursor);
    const mine = ++asked;
    const mineFor = String(filter);
    const isLate = () => mineFor !== String(filter) || cursor !== pages.at(-1);
    try {
      const found = await get(`/v1/runs?${wanted}`, signal);
      if (mine < answered || isLate()) return;
      answered = mine;
      const known = runs;
      runs = new Map(found.runs.map((run) => [run.run_id, newest(known.get(run.run_id), run)]));
      next = found.next;
      since = found.since ? ` since ${found.since.slice(0, 10)}` : "";
      pushed = false;
      failure = "";
      draw();
    } catch (error) {
      if (signal.aborted || isLate()) return;
      failure = error.message;
      draw();
      if (isOpen(error)) setTimeout(() => mine === asked && !signal.aborted && load(), pauseAfter(error));
    }
  }

  async function goOlder() {
    if (pushed) await load();
    if (pushed) return; // it could not be read, and the page says so
    pages.push(next);
    load();
  }

  function draw() {
    const shown = [...runs.values()].sort((one, other) => other.run_id - one.run_id).slice(0, PAGE);
    for (const run of chosen) if (!runs.has(run) || isOver(runs.get(run))) chosen.delete(run);
    show(shown.map((run) => ({ key: run.run_id, look: look(run), ...run })));
    newer.hidden = pages.length === 1;
    older.hidden = !next;
    setText(page, pages.length > 1 || next ? `page ${pages.length}` : "");
    table.hidden = !shown.length;
    waiting.hidden = Boolean(answered || failure);
    bulk.hidden = !chosen.size;
    setText(count, `${chosen.size} selected`);
    const all = h("a.button", { href: "#/" }, "Show all runs");
    if (failure || !answered) say(failure, failure && filter.size && all);
    else if (shown.length) say("");
    else if (filter.size) say(next ? "None so far: look at older ones." : `No such runs${since}.`, all);
    else say("No runs yet. The first one that starts appears here.", mayOperate()
      && h("button.primary", () => document.getElementById("start").click(), "Start a run"));
  }

  function say(text, action) {
    empty.hidden = !text;
    fill(empty, [text, action && h("br"), action]);
  }

  function stopChosen() {
    askToStop([...chosen].map((run) => runs.get(run)), false, () => { chosen.clear(); draw(); });
  }

  listen(({ kind, run }) => {
    if (kind === "ready") load();
    if (kind !== "run") return;
    const known = runs.get(run.run_id);
    if (filter.size) refilling ??= setTimeout(() => { refilling = null; load(); }, SETTLE); // the API says who belongs to it
    if (known || (!filter.size && !run.flow && pages.length === 1)) runs.set(run.run_id, newest(known, run));
    if (runs.size > PAGE) trim();
    draw();
  }, signal);

  function trim() {
    const oldest = Math.min(...runs.keys());
    runs.delete(oldest);
    pushed = true;
    if (next === null) load(); // there is a second page now: its cursor is the API's to say
  }

  load().then(() => afterPaint(filters.count)); // the API counts many runs: the list comes first
}

// An answer may be older than an event that overtook it.
const newest = (known, run) => (known && known.changed_at > run.changed_at ? known : run);
