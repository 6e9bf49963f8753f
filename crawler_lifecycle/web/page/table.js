// Lists of anything, whose nodes stay, and pages that are such a list.

import { attempt, emptyLine, fill, h, isOpen, listen, patch, pauseAfter, say, skeleton, toast } from "/kit.js";

// A list whose lines stay. `columns`: {heading: cell of an item}, or {"heading|class": cell}.
// `below(item)`: what is shown under its line, if anything. Each item has a `key`, and may have a `look`.
// `orders`: {heading: order}; `sort` hears the order that somebody chooses, `show` gets it.
export function makeGrid(kind, columns, { below = () => null, orders = {}, sort } = {}) {
  const names = Object.keys(columns).map((name) => name.split("|"));
  const heads = names.map(([name, kind]) => (name ? h("th", { scope: "col", class: kind }, orders[name] ? h("button", () => sort(orders[name]), name) : name) : h("td")));
  const cells = Object.values(columns);
  const cellOf = (item, place) => h("td", { class: names[place][1], dataset: { label: names[place][0] } }, cells[place](item));
  const body = h("tbody");
  const lay = (items) => patch(body, items.flatMap((item) => (below(item) ? [item, { key: `${item.key}\u0000`, under: below(item) }] : [item])), (item) => item.key,
    ({ under }) => (under ? h("tr.below", h("td", { colspan: cells.length }, under)) : h("tr")),
    (row, item) => {
      row.dataset.look = item.look ?? "";
      if (!item.under) fill(row, cells.map((_, place) => cellOf(item, place)));
    });
  function show(items, order) {
    heads.forEach((head, place) => {
      const mine = orders[names[place][0]];
      if (mine) head.setAttribute("aria-sort", order === mine ? "ascending" : order === `-${mine}` ? "descending" : "none");
    });
    lay(items);
  }
  return { element: h(`table.list.${kind}`, h("thead", h("tr", heads)), body), show };
}

// A grid of items without a stream. `read(cursor)` returns items, and the next page's cursor. `none`: shown for no items.
export function makeTable({ columns, below, read, none, signal, kind = "boxed", again = 5000 }) {
  const pages = [null]; // the cursors of the pages up to this one
  let next = null;
  let timer = null;
  let asked = 0;
  let hasAnswer = false;
  const { element: table, show: draw } = makeGrid(kind, columns, { below });
  table.hidden = true;
  const [waiting, problem] = [skeleton(), emptyLine()];
  const turn = (name, act) => h("button", { hidden: true, onclick: () => { act(); load(); } }, name);
  const [back, on] = [turn("Previous", () => pages.pop()), turn("Next", () => pages.push(next))];
  const element = h("div", waiting, table, problem, h("nav.pager", { "aria-label": "Pages" }, back, on));

  async function load() {
    clearTimeout(timer);
    const mine = ++asked;
    let pause = again;
    let text = "";
    try {
      const found = await read(pages.at(-1));
      if (mine !== asked || signal.aborted) return;
      hasAnswer = true;
      next = found.next;
      table.hidden = !found.items.length;
      back.hidden = pages.length === 1;
      on.hidden = !next;
      draw(found.items);
      if (table.hidden) text = next ? "None so far." : none;
    } catch (error) {
      if (mine !== asked || signal.aborted) return;
      text = error.message;
      pause = isOpen(error) ? Math.max(again, pauseAfter(error)) : null;
    }
    say(problem, text);
    waiting.hidden = hasAnswer || !pause;
    if (pause) timer = setTimeout(() => document.hidden || !element.isConnected || load(), pause);
  }

  listen(({ kind }) => kind === "ready" && load(), signal);
  document.addEventListener("visibilitychange", () => document.hidden || load(), { signal });
  load();
  return { element, load, restart: () => { pages.length = 1; return load(); } };
}

export function showTable({ main, title, tools = [], about = [], ...rest }) {
  const table = makeTable(rest);
  main.append(h("div.tools", h("h1", title), tools), ...about, table.element);
  return table;
}

// A command to the API; then the table is read again.
export const commandButton = (name, send, done, properties) => h("button", {
  ...properties, onclick: async ({ target }) => {
    await attempt(target, async () => toast(await send()));
    done();
  },
}, name);
