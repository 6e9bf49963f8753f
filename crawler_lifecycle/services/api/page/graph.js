// A flow as a picture: layers from left to right, coloured by state. Sub-workflows and many jobs that are alike are one
// box until somebody opens it, so that at most a thousand boxes are drawn.

import { chipGroup, h, JOB_STATES, number, patch, setText, stateCounts, svg } from "/kit.js";

const MOST = 1000;
const ALIKE = 12; // so many jobs with the same needs and work become one box
const [WIDTH, HEIGHT, ACROSS, DOWN] = [178, 42, 54, 12];
const LETTERS = 24;

// `choose(job)`: somebody wants to know more of it.
export function makeGraph(choose) {
  const opened = new Set();
  let jobs = new Map();
  let known = "";
  let boxes = new Map();
  const open = chipGroup("Opened boxes");
  const note = h("p.quiet");
  const picture = svg("svg", { class: "graph", role: "group", "aria-label": "Graph of jobs" });
  const element = h("div", h("div.tools", note, open), h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Graph" }, picture));

  function draw(latest) {
    jobs = latest;
    let units = unite(jobs, opened, ALIKE);
    if (units.size > MOST) units = unite(jobs, opened, 2);
    const isTooLarge = units.size > MOST;
    picture.toggleAttribute("hidden", isTooLarge);
    setText(note, isTooLarge ? `${number(units.size)} boxes are too many to draw: close some, or use the ledger.`
      : units.size < jobs.size ? `${number(jobs.size)} jobs in ${number(units.size)} boxes; a box with a number opens.` : "");
    const shape = [...units.values()].map((unit) => `${unit.key}<${[...unit.needs].join()}`).join("\n");
    if (shape !== known && !isTooLarge) {
      known = shape;
      build(units);
    }
    if (!isTooLarge) for (const unit of units.values()) paint(boxes.get(unit.key), unit);
    drawOpened();
  }

  function build(units) {
    const places = arrange(units);
    boxes = new Map();
    const lines = [];
    for (const unit of units.values()) {
      const { x, y } = places.get(unit.key);
      for (const need of unit.needs) {
        const from = places.get(need);
        const [begin, high, low] = [from.x + WIDTH, from.y + HEIGHT / 2, y + HEIGHT / 2];
        const bend = Math.max(20, (x - begin) / 2);
        lines.push(svg("path", { class: "edge", d: `M${begin} ${high}C${begin + bend} ${high} ${x - bend} ${low} ${x} ${low}` }));
      }
      boxes.set(unit.key, makeBox(unit, x, y));
    }
    const right = Math.max(0, ...[...places.values()].map(({ x }) => x)) + WIDTH + 2;
    const bottom = Math.max(0, ...[...places.values()].map(({ y }) => y)) + HEIGHT + 2;
    for (const [name, value] of Object.entries({ width: right, height: bottom, viewBox: `-1 -1 ${right} ${bottom}` })) picture.setAttribute(name, value);
    picture.replaceChildren(...lines, ...boxes.values());
  }

  function makeBox(unit, x, y) {
    const press = () => {
      if (unit.job) return choose(jobs.get(unit.job));
      opened.add(unit.key);
      draw(jobs);
    };
    const box = svg("g", { class: "box", transform: `translate(${x} ${y})`, tabindex: 0, role: "button" },
      svg("rect", { width: WIDTH, height: HEIGHT, rx: 8 }), svg("text", { x: 12, y: 17 }), svg("text", { x: 12, y: 33, class: "small" }),
      svg("g", { class: "parts", transform: `translate(12 ${HEIGHT - 6})` }), svg("title"));
    box.addEventListener("click", press);
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    });
    return box;
  }

  function drawOpened() {
    patch(open, [...opened], (key) => key, (key) => h("button.chip", {
      "aria-pressed": "true", onclick: () => { opened.delete(key); draw(jobs); },
    }, `${nameOf(key)} \u00d7`));
  }

  return { element, draw };
}

// A box's key is the path of its job or sub-workflow, or for jobs that are alike, what they have in common.
const nameOf = (key) => key.split("\n")[0].replace(/\/$/, "");

function paint(box, unit) {
  const [rect, name, small, parts, title] = box.children;
  const state = URGENCY.find((each) => unit.counts[each]);
  if (box.dataset.status !== state) box.dataset.status = state;
  const label = unit.job ? unit.job.split("/").pop() : nameOf(unit.key);
  const about = unit.job ? `${unit.title} \u00b7 ${state}` : stateCounts(unit.counts, JOB_STATES);
  write(name, unit.job ? label : `${number(unit.size)} \u00d7 ${label}`);
  write(small, unit.job ? ` ${about}` : ""); // a space, for those who hear both
  setText(title, unit.job ? `${unit.job} ${about}` : `${nameOf(unit.key)}: ${about}`);
  box.setAttribute("aria-label", title.textContent);
  rect.classList.toggle("many", !unit.job);
  const wanted = unit.job ? "" : about;
  if (parts.dataset.shown === wanted) return;
  parts.dataset.shown = wanted;
  let x = 0;
  parts.replaceChildren(...(unit.job ? [] : JOB_STATES.filter((each) => unit.counts[each]).map((each) => {
    const width = (WIDTH - 24) * unit.counts[each] / unit.size;
    const part = svg("rect", { x, y: -8, width: Math.max(1.5, width), height: 6, class: "part", "data-status": each });
    x += width;
    return part;
  })));
}

// What a box of many looks like: what needs a person first.
const URGENCY = ["discarded", "retryable", "executing", "cancelled", "scheduled", "available", "suspended", "completed"];

function write(element, text) {
  setText(element, text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}\u2026` : text);
}

// The boxes in an order in which each comes after what it needs: {key, job?, title, needs, counts, size}.
function unite(jobs, opened, alike) {
  const order = sorted(jobs);
  const keys = new Map(); // job: box
  const kinds = new Map(); // what jobs have in common: how many
  const common = new Map();
  for (const job of order) {
    const group = closedGroup(job.path, opened);
    if (group) keys.set(job.path, group);
    const needs = [...new Set(needsOf(job, jobs).map((need) => keys.get(need) ?? common.get(need)))].sort().join("\n");
    const parent = job.path.slice(0, job.path.lastIndexOf("/") + 1);
    const kind = `${parent}${job.title}\n${job.kind}\n${needs}`;
    common.set(job.path, kind);
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  const units = new Map();
  for (const job of order) {
    const kind = common.get(job.path);
    const isAlone = kinds.get(kind) < alike || opened.has(kind);
    const key = keys.get(job.path) ?? (isAlone ? job.path : kind);
    keys.set(job.path, key);
    const unit = units.get(key) ?? { key, job: key === job.path ? job.path : null, title: job.title, needs: new Set(), counts: {}, size: 0 };
    units.set(key, unit);
    unit.counts[job.state] = (unit.counts[job.state] ?? 0) + 1;
    unit.size += 1;
    for (const need of needsOf(job, jobs)) if (keys.get(need) !== key) unit.needs.add(keys.get(need));
  }
  return units;
}

const needsOf = (job, jobs) => job.deps.filter((path) => jobs.has(path));

// The outermost sub-workflow above a job that nobody has opened.
function closedGroup(path, opened) {
  for (let end = path.indexOf("/"); end > 0; end = path.indexOf("/", end + 1)) {
    const group = path.slice(0, end + 1);
    if (!opened.has(group)) return group;
  }
  return null;
}

function sorted(jobs) {
  const order = [];
  const seen = new Set();
  for (const first of jobs.values()) {
    const stack = [first];
    while (stack.length) {
      const job = stack.at(-1);
      const missing = seen.has(job.path) ? null : needsOf(job, jobs).find((need) => !seen.has(need));
      if (missing) {
        stack.push(jobs.get(missing));
        continue;
      }
      if (!seen.has(job.path)) order.push(job);
      seen.add(job.path);
      stack.pop();
    }
  }
  return order;
}

// Where each box is: as far to the right as what it needs demands, near to that in height.
function arrange(units) {
  const layers = [];
  const layer = new Map();
  const rank = (key, path) => {
    if (layer.has(key)) return layer.get(key);
    if (path.has(key)) return 0; // two sub-workflows that need each other's jobs
    path.add(key);
    const place = Math.max(-1, ...[...units.get(key).needs].map((need) => rank(need, path))) + 1;
    layer.set(key, place);
    return place;
  };
  for (const key of units.keys()) (layers[rank(key, new Set())] ??= []).push(key);
  const height = Math.max(...layers.map((keys) => keys.length)) * (HEIGHT + DOWN) - DOWN;
  const places = new Map();
  layers.forEach((keys, number) => {
    const middle = new Map(keys.map((key) => {
      const near = [...units.get(key).needs].map((need) => places.get(need)?.y).filter((y) => y !== undefined);
      return [key, near.length ? near.reduce((sum, y) => sum + y, 0) / near.length : 0];
    }));
    const top = (height - keys.length * (HEIGHT + DOWN) + DOWN) / 2;
    keys.sort((one, other) => middle.get(one) - middle.get(other))
      .forEach((key, place) => places.set(key, { x: number * (WIDTH + ACROSS), y: top + place * (HEIGHT + DOWN) }));
  });
  return places;
}
