// A flow as a picture: layers from left to right, coloured by state. Sub-workflows and jobs that are alike are one box
// until somebody opens it; and so are the jobs of a layer where there would be too many boxes.

import { bar, chipGroup, fill, h, JOB_STATES, number, patch, setText, stateCounts, sum, visible } from "/kit.js";

const MOST = 1000;
const ALIKE = [12, 2, 0]; // so many jobs with the same needs and work become one box; 0: those of a layer do
const [WIDTH, HEIGHT, ACROSS, DOWN] = [178, 42, 54, 12]; // of a box, as in style.css, and between boxes

// `choose(job)`: somebody wants to know more of it.
export function makeGraph(choose) {
  const opened = new Set();
  let jobs = new Map();
  let known = "";
  let columns = [];
  const open = chipGroup("Opened boxes");
  const note = h("p.quiet");
  const [drawing, lines] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  const layers = h("div.layers", { role: "group", "aria-label": "Graph of jobs" });
  drawing.append(lines);
  const picture = h("div.graph", drawing, layers);
  const element = h("div", h("div.tools", note, open), h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Graph" }, picture));

  function draw(latest) {
    jobs = latest;
    const order = sorted(jobs);
    let units;
    ALIKE.some((alike) => (units = unite(order, jobs, opened, alike)).size <= MOST);
    picture.hidden = units.size > MOST;
    setText(note, picture.hidden ? `${number(units.size)} boxes are too many to draw: close some.`
      : units.size < jobs.size ? `${number(jobs.size)} jobs in ${number(units.size)} boxes; a box with a number opens.` : "");
    if (!picture.hidden) {
      const shape = [...units.values()].map((unit) => `${unit.key}<${[...unit.needs].join()}`).join("\n");
      if (shape !== known) {
        const places = arrange(units);
        columns = [...Map.groupBy(places.keys(), (key) => places.get(key).x).values()];
        lines.setAttribute("d", linesBetween(units, places));
      }
      known = shape;
      patch(layers, columns, (keys) => columns.indexOf(keys), () => h("div"), (layer, keys) => {
        layer.style.height = `${heightOf(keys)}px`; // also of a layer that is not drawn because nobody sees it
        patch(layer, keys.map((key) => units.get(key)), ({ key }) => key, makeBox, paint);
      });
    }
    patch(open, [...opened], (key) => key, (key) => h("button.chip", {
      "aria-pressed": "true", onclick: () => { opened.delete(key); draw(jobs); },
    }, `${nameOf(key)} \u00d7`));
  }

  function makeBox({ key, job }) {
    return h("button.box", () => {
      if (job) return choose(jobs.get(job));
      opened.add(key);
      draw(jobs);
    });
  }

  return { element, draw };
}

// A box's key is the path of its job or sub-workflow, or for jobs that are alike, what they have in common.
const nameOf = (key) => key.split("\n")[0].replace(/\/$/, "");

function paint(box, { key, job, title, counts, size }) {
  const state = URGENCY.find((each) => counts[each]);
  const about = job ? `${title} \u00b7 ${state}` : stateCounts(counts, JOB_STATES);
  const whole = visible(job ? `${job} ${about}` : `${nameOf(key)}: ${about}`);
  if (box.title === whole) return;
  box.title = whole;
  Object.assign(box.dataset, { status: state, many: !job });
  fill(box, job ? [h("b", job.split("/").pop()), h("small", about)] : [h("b", `${number(size)} \u00d7 ${nameOf(key)}`), bar(counts, JOB_STATES)]);
}

// What a box of many looks like: what needs a person first.
const URGENCY = ["discarded", "retryable", "executing", "cancelled", "scheduled", "available", "suspended", "completed"];

// The boxes in an order in which each comes after what it needs: {key, job?, title, needs, counts, size}.
function unite(order, jobs, opened, alike) {
  const keys = new Map(); // job: box
  const kinds = new Map(); // by what jobs have in common: {key, first, size}
  const common = new Map(); // job: kind
  const layers = new Map();
  for (const job of order) {
    const group = closedGroup(job.path, opened);
    if (group) keys.set(job.path, group);
    const above = needsOf(job, jobs);
    const layer = above.reduce((most, need) => Math.max(most, layers.get(need)), 0) + 1;
    layers.set(job.path, layer);
    const parent = job.path.slice(0, job.path.lastIndexOf("/") + 1);
    const key = alike ? [parent + job.title, job.kind, ...new Set(above.map((need) => keys.get(need) ?? common.get(need).first).sort())].join("\n")
      : `${parent}jobs in layer ${layer}`;
    const kind = kinds.get(key) ?? { key, first: job.path, size: 0 }; // the first stands for all: their keys would grow from layer to layer
    kind.size += 1;
    kinds.set(key, kind);
    common.set(job.path, kind);
  }
  const units = new Map();
  for (const job of order) {
    const kind = common.get(job.path);
    const isAlone = kind.size < (alike || 2) || opened.has(kind.key);
    const key = keys.get(job.path) ?? (isAlone ? job.path : kind.key);
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

const heightOf = (keys) => keys.length * (HEIGHT + DOWN) - DOWN;

// Where each box begins, and its middle from the picture's middle: as far to the right as what it needs demands, and
// near to that in height.
function arrange(units) {
  const ranked = [];
  const layer = new Map();
  const rank = (key, path) => {
    if (layer.has(key)) return layer.get(key);
    if (path.has(key)) return 0; // two sub-workflows that need each other's jobs
    path.add(key);
    const place = Math.max(-1, ...[...units.get(key).needs].map((need) => rank(need, path))) + 1;
    layer.set(key, place);
    return place;
  };
  for (const key of units.keys()) (ranked[rank(key, new Set())] ??= []).push(key);
  const places = new Map();
  ranked.filter(Boolean).forEach((keys, layer) => { // a circle takes no first place
    const near = new Map(keys.map((key) => {
      const needed = [...units.get(key).needs].map((need) => places.get(need)?.y).filter(Number.isFinite);
      return [key, needed.length ? sum(needed) / needed.length : 0];
    }));
    keys.sort((one, other) => near.get(one) - near.get(other)).forEach((key, place) => places.set(key, {
      x: layer * (WIDTH + ACROSS), y: place * (HEIGHT + DOWN) + (HEIGHT - heightOf(keys)) / 2,
    }));
  });
  return places;
}

// The lines from each box to those that need it.
const linesBetween = (units, places) => [...units.values()].flatMap(({ key, needs }) => [...needs].map((need) => {
  const [{ x, y }, to] = [places.get(need), places.get(key)];
  const bend = Math.max(20, (to.x - x - WIDTH) / 2);
  return `M${x + WIDTH} ${y}C${x + WIDTH + bend} ${y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
})).join("");
