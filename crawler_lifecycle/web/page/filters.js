// The choice of runs, all in the address. A view is an address with a name.

import { addressOf, chipGroup, choice, drawChips, get, h, link, listen, patch, searchField, sum } from "/kit.js";

export const LISTED = ["INITIALIZING", "PROCESSING", "STOPPING", "COMPLETED", "FAILED", "STOPPED"];
const WITHIN = { "": "recently", "1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days", "999d": "any time" };
const TIMES = { since: "Created from, UTC", until: "Created before, UTC" };
const FIELDS = { crawler: "Crawler", outcome: "Outcome", label: "Label", reason: "Reason", requested_by: "Requester", tag: "Tag", flow: "Flow", ...TIMES };
const KEPT = "views"; // {name: address} of this browser
const COUNT_AGAIN = 3000;

// The API's parameters for an address.
export function queryOf(filter) {
  const query = new URLSearchParams(filter);
  const [, length, unit] = /^(\d{1,3})([hd])$/.exec(query.get("within")) ?? [];
  query.delete("within");
  if (length) query.set("since", new Date(Date.now() - length * (unit === "d" ? 86_400_000 : 3_600_000)).toISOString());
  return String(query);
}

// `choose(address)`: the filter has changed.
export function makeFilters(filter, choose, signal) {
  let counts = null;
  let timer = null;
  const chips = chipGroup("Status");
  const search = searchField("Crawler or run", {
    value: filter.get("search"), onchange: (event) => set("search", event.target.value.trim()),
  }, "Crawler or run  ( / )");
  const select = (name, label, texts) => choice(label, texts, filter.get(name), (value) => set(name, value));
  const within = select("within", "Created", WITHIN);
  const trigger = select("trigger", "Trigger", { "": "any trigger", scheduled: "scheduled", manual: "manual", api: "API" });
  const more = h("div.more", { id: "more-filters", hidden: ![...Object.keys(FIELDS), "flows"].some((name) => filter.has(name)) }, Object.entries(FIELDS).map(([name, label]) => h("label", label,
    h("input", {
      name, autocomplete: "off", type: TIMES[name] && "datetime-local",
      value: TIMES[name] ? new Date(filter.get(name) ?? "").toJSON()?.slice(0, 16) : filter.get(name),
      onchange: ({ target: { value } }) => set(name, value.trim() && value.trim() + (TIMES[name] ? "Z" : "")),
    }))),
    h("label.check", h("input", {
      type: "checkbox", checked: filter.get("flows") === "true", onchange: (event) => set("flows", event.target.checked ? "true" : ""),
    }), "Include runs of flows"));
  const opener = h("button.chip", {
    "aria-expanded": String(!more.hidden), "aria-controls": "more-filters",
    onclick: () => { more.hidden = !more.hidden; opener.setAttribute("aria-expanded", String(!more.hidden)); },
  }, "More filters");
  const views = chipGroup("Saved views");
  const element = h("div.filters",
    h("div.tools", chips, search), h("div.tools", within, trigger, opener, views), more);

  function change(act) {
    act();
    draw();
    choose(address());
    count();
  }

  const set = (name, value) => change(() => (value ? filter.set(name, value) : filter.delete(name)));

  function toggle(state) {
    change(() => {
      filter.delete("status");
      if (state === null) filter.delete("listed");
      else if (filter.has("listed", state)) filter.delete("listed", state);
      else filter.append("listed", state);
    });
  }

  const address = () => addressOf("#/", filter);

  function draw() {
    drawChips(chips, LISTED, (state) => counts && sum(counts.counts, state), (state) => (state
      ? filter.has("listed", state) || filter.has("status", state) : !filter.has("listed") && !filter.has("status")), toggle,
      (state) => counts?.at_least.some((each) => !state || each === state));
    drawViews();
  }

  function drawViews() {
    const kept = readViews();
    const here = address();
    const isNew = filter.size > 0 && !Object.values(kept).includes(here);
    patch(views, [...Object.keys(kept), ...(isNew ? [null] : [])], (name) => name ?? "\u0000",
      (name) => (name === null ? h("button.chip", save, "Save this view")
        : h("span.chip.view", link(kept[name], name), h("button.link", {
          "aria-label": `Forget the view ${name}`, onclick: () => forget(name),
        }, "×"))),
      (chip, name) => name !== null && chip.firstChild.setAttribute("aria-current", String(kept[name] === here)));
  }

  function save() {
    const name = prompt("Name of the view")?.trim();
    if (!name) return;
    localStorage.setItem(KEPT, JSON.stringify({ ...readViews(), [name]: address() }));
    drawViews();
  }

  function forget(name) {
    const { [name]: _, ...kept } = readViews();
    localStorage.setItem(KEPT, JSON.stringify(kept));
    drawViews();
  }

  async function count() {
    clearTimeout(timer);
    timer = null;
    const query = new URLSearchParams(queryOf(filter));
    query.delete("listed");
    query.delete("status");
    const mine = String(filter);
    try {
      const found = await get(`/v1/run-counts?${query}`, signal);
      if (mine !== String(filter)) return;
      counts = found;
      draw();
    } catch {
      soon(); // the list says what is wrong
    }
  }

  function soon() {
    if (!signal.aborted) timer ??= setTimeout(count, COUNT_AGAIN);
  }

  listen(({ kind }) => (kind === "ready" || kind === "run") && soon(), signal);
  draw();
  return { element, count };
}

function readViews() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    return {}; // of another page at this address
  }
}
