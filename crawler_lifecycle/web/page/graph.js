// A flow as a picture: layers from left to right, coloured by state. A sub-workflow and jobs that are alike are one box
// until somebody opens it; where there would be too many boxes, the jobs of a layer are one.

import { bar, chipGroup, counted, fill, h, inWords, JOB_STATES, lasting, lookOfJob, mayOperate, number, patch, setText, stateCounts, stateInWords, sum, visible } from "/kit.js";
import { shownReason } from "/standing.js";

const MOST = 1000;
const ALIKE = [12, 2, 0]; // from this number, jobs with the same needs and work become one box; 0: the jobs of a layer do
const [HEIGHT, DOWN] = [42, 12]; // of a box, as in style.css, and between boxes
const SIZES = [[178, 54], [164, 40], [150, 34], [136, 28], [122, 24]]; // widths of a box and of the space to its right: the first that fits
const MOST_WAYS = 300; // places that lines pass beside boxes
const HEAD = 6; // of an arrow
const [SMALLEST, LARGEST, STEP] = [0.3, 2, 1.25]; // of the zoom
const MARKS = { completed: "✓", discarded: "✕", cancelled: "⊘", executing: "▶", retryable: "↻", odd: "!" };

export function makeGraph(choose, approve) {
  const opened = new Set();
  let jobs = new Map();
  let groups = null;
  let known = "";
  let columns = [];
  const open = chipGroup("Opened boxes");
  const note = h("p.quiet");
  const [drawing, lines, heads] = ["svg", "path", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  heads.classList.add("heads");
  const layers = h("div.layers", { role: "group", "aria-label": "Graph of jobs" });
  drawing.append(lines, heads);
  const picture = h("div.graph", drawing, layers);
  const frame = h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Graph" }, picture);
  let zoom = 1;
  const zoomTo = (factor) => { picture.style.zoom = zoom = Math.min(LARGEST, Math.max(SMALLEST, factor)); };
  const zooms = chipGroup("Zoom", h("button.chip", { "aria-label": "Zoom out", onclick: () => zoomTo(zoom / STEP) }, "−"),
    h("button.chip", { "aria-label": "Zoom in", onclick: () => zoomTo(zoom * STEP) }, "+"), h("button.chip", fit, "Fit"));
  const element = h("div", h("div.tools", zooms, note, open), frame);
  new ResizeObserver(() => groups && draw(jobs)).observe(frame);

  function fit() {
    zoomTo(1);
    zoomTo(Math.min(1, (frame.clientWidth - 30) / picture.offsetWidth, (0.7 * innerHeight - 30) / picture.offsetHeight));
  }

  const asks = (job) => job && mayOperate() && jobs.get(job).kind === "approval" && jobs.get(job).state === "available";

  function draw(latest, needs = groups) {
    jobs = latest;
    groups = needs;
    const nodes = nodesOf(jobs, groups);
    const order = sorted(nodes);
    let units;
    ALIKE.some((alike) => (units = unite(order, nodes, opened, alike)).size <= MOST);
    picture.hidden = units.size > MOST;
    setText(note, picture.hidden ? `${number(units.size)} boxes are too many to draw: close some.`
      : units.size < jobs.size ? `${counted(jobs.size, "job")}; click a group to expand it.` : "");
    if (!picture.hidden) {
      const room = frame.clientWidth - 30; // without its padding
      const shape = [room, ...[...units.values()].map((unit) => `${unit.key}<${[...unit.needs].join()}`)].join("\n");
      if (shape !== known) {
        const { places, ways, size: [width, across], isWide } = arrange(units, room);
        columns = [...Map.groupBy(places.keys(), (key) => places.get(key).x).values()];
        const ends = linesBetween(units, places, ways, width);
        lines.setAttribute("d", ends.map(({ line }) => line).join(""));
        heads.setAttribute("d", ends.map(({ head }) => head).join(""));
        picture.style.setProperty("--box", `${width}px`);
        picture.style.setProperty("--across", `${across}px`);
        frame.classList.toggle("more", isWide);
      }
      known = shape;
      patch(layers, columns, (keys) => columns.indexOf(keys), () => h("div"), (layer, keys) => {
        layer.style.height = `${heightOf(keys)}px`; // also of a layer that is not drawn because nobody sees it
        patch(layer, keys.map((key) => units.get(key) ?? { key, isWay: true }), ({ key, job }) => (asks(job) ? `${key}\n?` : key), makeBox, (box, unit) => unit.isWay || paint(box, unit, jobs.get(unit.job)));
      });
    }
    patch(open, [...opened], (key) => key, (key) => h("button.chip", {
      "aria-pressed": "true", onclick: () => { opened.delete(key); draw(jobs); },
    }, `${nameOf(key)} ×`));
  }

  function makeBox({ key, job, isWay }) {
    if (isWay) return h("i.way");
    if (asks(job)) return h("div.box.decide", h("button", () => choose(jobs.get(job))), h("button.primary", () => approve(job), "Approve"));
    return h("button.box", () => {
      if (job) return choose(jobs.get(job));
      opened.add(key);
      draw(jobs);
    });
  }

  return { element, draw };
}

// A box's key is the path of its job or sub-workflow, or what jobs that are alike have in common.
const nameOf = (key) => key.split("\n")[0].replace(/\/$/, "");

function paint(box, { key, job, title, counts, size }, row) {
  const state = URGENCY.find((each) => counts[each]);
  const about = job ? `${title} · ${stateInWords(state)}` : stateCounts(counts, JOB_STATES);
  const why = row && (state === "discarded" || state === "retryable" || state === "cancelled") ? shownReason(row) : "";
  const look = row ? lookOfJob(row) : state;
  const whole = visible(job ? [`${job} ${about}`, row.items, row.run_id && `run ${row.run_id}`, why, look === "odd" && row.outcome].filter(Boolean).join(", ") : `${nameOf(key)}: ${about}`);
  if (box.title === whole && box.dataset.ended === `${row?.ended_at}`) return;
  box.title = whole;
  Object.assign(box.dataset, { status: look, many: !job, ended: `${row?.ended_at}` });
  fill(box.matches(".decide") ? box.firstChild : box, job ? [h("b", h("span", { "aria-hidden": "true" }, MARKS[look] ?? "○"), ` ${job.split("/").pop()}`), h("small", aboutJob(row, why, about))]
    : [h("b", `${number(size)} × ${nameOf(key)}`), bar(counts, JOB_STATES)]);
}

function aboutJob({ items, run_id: run, began_at: began, ended_at: ended, ...job }, why, about) {
  if (why) return why;
  const parts = [lookOfJob(job) === "odd" && inWords(job.outcome), items, run && `run ${run}`, began && lasting(began, ended)].filter(Boolean);
  return parts.length ? parts.flatMap((each, place) => [place > 0 && " · ", each]) : about;
}

// A box of many looks like what needs a person first.
const URGENCY = ["discarded", "retryable", "executing", "cancelled", "scheduled", "available", "suspended", "completed"];

// The boxes in an order in which each comes after what it needs: {key, job?, title, needs, counts, size}.
function unite(order, nodes, opened, alike) {
  const keys = new Map(); // job: box
  const kinds = new Map(); // by what jobs have in common: {key, first, size}
  const common = new Map(); // job: kind
  const layers = new Map();
  for (const { path, job, needs } of order) {
    const layer = needs.reduce((most, need) => Math.max(most, layers.get(need) ?? 0), 0);
    layers.set(path, job ? layer + 1 : layer);
    if (!job) continue;
    const group = closedGroup(path, opened);
    if (group) keys.set(path, group);
    const parent = path.slice(0, path.lastIndexOf("/") + 1);
    const key = alike ? [parent + job.title, job.kind, ...new Set(needs.map((need) => keys.get(need) ?? common.get(need)?.first ?? need).sort())].join("\n")
      : `${parent}jobs in layer ${layer + 1}`;
    const kind = kinds.get(key) ?? { key, first: path, size: 0 }; // the first represents all: their keys would grow from layer to layer
    kind.size += 1;
    kinds.set(key, kind);
    common.set(path, kind);
  }
  const units = new Map();
  const ends = new Map(); // node: its boxes that no other of them needs
  for (const { path, job, needs } of order) {
    if (!job) {
      const inner = new Set();
      const enter = (need) => {
        if (inner.has(need)) return;
        inner.add(need);
        if (!nodes.get(need).job) nodes.get(need).needs.forEach(enter);
      };
      for (const need of needs) nodes.get(need).needs.forEach(enter);
      const last = new Set(needs.filter((need) => !inner.has(need)).flatMap((need) => [...ends.get(need) ?? []]));
      ends.set(path, last.size > MOST ? [] : last);
      continue;
    }
    const kind = common.get(path);
    const isAlone = kind.size < (alike || 2) || opened.has(kind.key);
    const key = keys.get(path) ?? (isAlone ? path : kind.key);
    keys.set(path, key);
    ends.set(path, [key]);
    const unit = units.get(key) ?? { key, job: key === path ? path : null, title: job.title, needs: new Set(), counts: {}, size: 0 };
    units.set(key, unit);
    if (alike && units.size > MOST) break;
    unit.counts[job.state] = (unit.counts[job.state] ?? 0) + 1;
    unit.size += 1;
    for (const need of needs) for (const end of ends.get(need) ?? []) if (end !== key) unit.needs.add(end);
  }
  return units;
}

// {path, job?, needs}: the jobs, groups that are needed as a whole (a slash after the path), and what all jobs of a group
// need (a slash before it).
function nodesOf(jobs, groups) {
  const nodes = new Map();
  const add = (path) => nodes.set(path, { path, needs: [] }).get(path);
  for (const path of groups.keys()) add(`/${path}`);
  const needed = new Set([...groups.values()].flat());
  for (const { deps } of jobs.values()) for (const need of deps) needed.add(need);
  for (const path of jobs.keys()) {
    for (let end = path.indexOf("/"); end > 0; end = path.indexOf("/", end + 1)) {
      const group = path.slice(0, end + 1);
      if (needed.has(path.slice(0, end))) (nodes.get(group) ?? add(group)).needs.push(path);
    }
  }
  // A graft needs its grafter, which has the same path.
  const whole = (need, path) => nodes.has(`${need}/`) && !`${path}/`.startsWith(`${need}/`) ? `${need}/` : need;
  const needsOf = (path, deps) => [...deps.map((need) => whole(need, path)), gateOf(path, deps, groups)].filter((need) => jobs.has(need) || nodes.has(need));
  for (const [path, deps] of groups) nodes.get(`/${path}`).needs = needsOf(path, deps);
  for (const job of jobs.values()) nodes.set(job.path, { path: job.path, job, needs: needsOf(job.path, job.deps) });
  return nodes;
}

// The nearest group around the path with needs; none if a need lies inside of a nearer group.
function gateOf(path, deps, groups) {
  for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
    const group = path.slice(0, end);
    if (deps.some((need) => need.startsWith(`${group}/`))) return null;
    if (groups.has(group)) return `/${group}`;
  }
  return null;
}

// The outermost sub-workflow above a job that nobody has opened.
function closedGroup(path, opened) {
  for (let end = path.indexOf("/"); end > 0; end = path.indexOf("/", end + 1)) {
    const group = path.slice(0, end + 1);
    if (!opened.has(group)) return group;
  }
  return null;
}

function sorted(nodes) {
  const order = [];
  const seen = new Set();
  const enter = (node) => seen.has(node.path) ? [] : [seen.add(node.path) && [node, node.needs.values()]];
  for (const first of nodes.values()) {
    const stack = first.job ? enter(first) : [];
    while (stack.length) {
      const { done, value } = stack.at(-1)[1].next();
      if (done) order.push(stack.pop()[0]);
      else stack.push(...enter(nodes.get(value)));
    }
  }
  return order;
}

const heightOf = (keys) => keys.length * (HEIGHT + DOWN) - DOWN;

// Where each box begins, and its middle from the picture's: to the right of what it needs, and near to it in height.
// `ways`: where a line over several layers passes beside their boxes.
function arrange(units, room) {
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
  const ways = new Map(); // need: the keys of its places, by layer
  let left = MOST_WAYS;
  for (const [key, { needs }] of units) for (const need of needs) {
    const mine = ways.get(need) ?? [];
    for (let between = layer.get(need) + 1; between < layer.get(key) && left > 0; between += 1) {
      if (mine[between]) continue;
      left -= 1;
      mine[between] = `${need}\n\u0000${between}`;
      (ranked[between] ??= []).push(mine[between]);
      ways.set(need, mine);
    }
  }
  const from = new Map([...ways].flatMap(([need, mine]) => mine.map((way, place) => [way, mine[place - 1] ?? need])));
  const first = ranked.findIndex(Boolean); // a circle takes no first place
  const wide = ([width, across]) => (ranked.length - first) * (width + across) - across;
  const size = SIZES.find((each) => wide(each) <= room) ?? SIZES.at(-1);
  const places = new Map();
  ranked.forEach((keys, layer) => {
    const near = new Map(keys.map((key) => {
      const needed = (from.has(key) ? [from.get(key)] : [...units.get(key).needs].map((need) => ways.get(need)?.[layer - 1] ?? need))
        .map((need) => places.get(need)?.y).filter(Number.isFinite);
      return [key, needed.length ? sum(needed) / needed.length : 0];
    }));
    keys.sort((one, other) => near.get(one) - near.get(other)).forEach((key, place) => places.set(key, {
      x: (layer - first) * sum(size), y: place * (HEIGHT + DOWN) + (HEIGHT - heightOf(keys)) / 2,
    }));
  });
  return { places, ways, size, isWide: wide(size) > room };
}

const linesBetween = (units, places, ways, width) => [...units.values()].flatMap(({ key, needs }) => [...needs].map((need) => {
  const to = places.get(key);
  const between = (ways.get(need) ?? []).map((way) => places.get(way)).filter(({ x }) => x < to.x);
  let { x, y } = places.get(need);
  x += width;
  let line = `M${x} ${y}`;
  for (const next of [...between, { ...to, isEnd: true }]) {
    const end = next.x - (next.isEnd ? HEAD : 0);
    const bend = Math.max(12, (end - x) / 2);
    line += `C${x + bend} ${y} ${end - bend} ${next.y} ${end} ${next.y}`;
    if (!next.isEnd) line += `H${next.x + width}`;
    [x, y] = [next.x + width, next.y];
  }
  return { line, head: `M${to.x} ${to.y}l${-HEAD - 1} -4v8z` };
}));
