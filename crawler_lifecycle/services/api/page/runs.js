// The list of runs: filters, pages, and every line as it is now.

import { get, isOpen } from "/api.js";
import { h, patch, setText, skeleton } from "/dom.js";
import { listen } from "/live.js";
import {
  RUN_STATES, endedWith, isOver, lasting, pill, setBar, setLasting, setPill, shownStatus, taskCount, time, waitsFor,
} from "/words.js";

const PAGE = 50;
const AGAIN = 2000;
const SETTLE = 250;

export function showRuns(main, filter, signal) {
  const pages = [null]; // the cursors of the pages up to this one
  let runs = new Map();
  let next = null;
  let pushed = false; // off this page by newer runs, so that the next page begins earlier by now
  let refilling = null;
  let asked = 0;
  let answered = 0; // the latest of those asked for
  let failure = ""; // of the latest answer

  const status = h("div", { class: "chips", role: "group", "aria-label": "Status" },
    [null, ...RUN_STATES].map((state) => h("a", {
      class: "chip", href: address({ status: state }), "aria-current": filter.get("status") === state ? "true" : null,
    }, state ? state.toLowerCase() : "all")));
  const crawler = h("input", {
    type: "search", placeholder: matchMedia("(hover: hover)").matches ? "Crawler  ( / )" : "Crawler", "aria-label": "Crawler",
    value: filter.get("search") ?? filter.get("crawler") ?? "",
    onchange: (event) => { location.hash = address({ search: event.target.value.trim() || null, crawler: null }); },
  });
  const body = h("tbody");
  const table = h("table", { class: "list runs", hidden: true },
    h("thead", {}, h("tr", {}, ["Run", "Crawler", "Status", "Tasks", "Why", "Created", "Took"]
      .map((name) => h("th", { scope: "col" }, name)))),
    body);
  const waiting = skeleton();
  const empty = h("p", { class: "empty", hidden: true });
  const older = h("button", { type: "button", onclick: goOlder }, "Older");
  const newer = h("button", { type: "button", onclick: () => { pages.pop(); load(); } }, "Newer");
  const place = h("span", { class: "quiet num" });
  main.append(
    h("div", { class: "tools" }, h("h1", {}, "Runs"), status, crawler),
    waiting,
    table,
    empty,
    h("nav", { class: "pager", "aria-label": "Pages" }, newer, place, older),
  );

  function address(change) {
    const wanted = new URLSearchParams(filter);
    for (const [name, value] of Object.entries(change)) value ? wanted.set(name, value) : wanted.delete(name);
    return `#/${wanted.size ? `?${wanted}` : ""}`;
  }

  async function load() {
    const query = new URLSearchParams(filter);
    query.set("limit", PAGE);
    const cursor = pages.at(-1);
    if (cursor) query.set("cursor", cursor);
    const mine = ++asked;
    try {
      const page = await get(`/v1/runs?${query}`, signal);
      if (mine < answered || cursor !== pages.at(-1)) return; // it comes too late
      answered = mine;
      const known = runs;
      runs = new Map(page.runs.map((run) => [run.run_id, newest(known.get(run.run_id), run)]));
      next = page.next;
      pushed = false;
      failure = "";
      draw();
    } catch (error) {
      if (signal.aborted || cursor !== pages.at(-1)) return;
      failure = error.message;
      draw();
      if (isOpen(error)) setTimeout(() => mine === asked && !signal.aborted && load(), Math.max(AGAIN, (error.pause ?? 0) * 1000));
    }
  }

  async function goOlder() {
    if (pushed) await load();
    if (pushed) return; // it could not be read; that is told
    pages.push(next);
    load();
  }

  function draw() {
    const shown = [...runs.values()].sort((one, other) => other.run_id - one.run_id).slice(0, PAGE);
    patch(body, shown, (run) => run.run_id, makeRow, updateRow);
    newer.hidden = pages.length === 1;
    older.hidden = !next;
    setText(place, pages.length > 1 || next ? `page ${pages.length}` : "");
    table.hidden = !shown.length;
    waiting.hidden = Boolean(answered || failure);
    if (failure || !answered) say(failure);
    else say(shown.length || next ? "" : filter.size ? "No such runs." : "No runs yet. The first one that starts appears here.");
  }

  function say(text) {
    empty.hidden = !text;
    setText(empty, text);
  }

  const fits = (run) => (!run.flow || filter.get("flows") === "true" || run.flow.id === filter.get("flow"))
    && (!filter.get("status") || run.status === filter.get("status"))
    && (!filter.get("crawler") || run.crawler === filter.get("crawler"))
    && (!filter.get("search") || run.crawler.toLowerCase().includes(filter.get("search").toLowerCase()));

  listen(({ kind, run }) => {
    if (kind === "ready") load();
    if (kind !== "run") return;
    const known = runs.get(run.run_id);
    const latest = newest(known, run);
    if (!fits(latest)) leave(run.run_id);
    else if (known || pages.length === 1) runs.set(run.run_id, latest);
    if (!known && pages.length === 1 && runs.size > PAGE) trim();
    draw();
  }, signal);

  function trim() {
    const oldest = Math.min(...runs.keys());
    runs.delete(oldest);
    pushed = true;
    if (next === null) load(); // there is a second page now: its cursor is the API's to say
  }

  function leave(run) {
    if (!runs.delete(run) || next === null) return;
    refilling ??= setTimeout(() => { refilling = null; load(); }, SETTLE); // from the next page
  }

  signal.addEventListener("abort", () => clearTimeout(refilling));
  load();
}

// An answer may be older than an event that overtook it.
const newest = (known, run) => (known && known.changed_at > run.changed_at ? known : run);

function makeRow(run) {
  return h("tr", {},
    h("td", { class: "id" }, h("a", { href: `#/runs/${run.run_id}` }, run.run_id)),
    h("td", { class: "name" }, run.crawler),
    h("td", { class: "state" }, pill(shownStatus(run))),
    h("td", { class: "tasks" }, h("span", { class: "num" }), h("span", { class: "meter" })),
    h("td", { class: "why" }),
    h("td", { class: "at quiet" }, time(run.created_at)),
    h("td", { class: "took quiet" }, lasting(run.begun_at, run.finished_at)));
}

function updateRow(row, run) {
  const [, , state, tasks, why, , took] = row.children;
  setPill(state.firstChild, shownStatus(run));
  setText(tasks.firstChild, taskCount(run.tasks));
  setBar(tasks.lastChild, run.tasks);
  setText(why, isOver(run) ? endedWith(run) : `waits for ${waitsFor(run)}`);
  why.title = why.textContent;
  setLasting(took.firstChild, run.begun_at, run.finished_at);
}
