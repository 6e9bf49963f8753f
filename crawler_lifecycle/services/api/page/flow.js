import { addressOf, alertLine, chipGroup, counted, fill, follow, get, h, JOB_STATES, lasting, lead, link, listen, makeLine, mayOperate, noAnswer, number, outsideLink, pill, post, press, setBar, setText, skeleton, stateCounts, sum, toast } from "/kit.js";
import { drawChart } from "/chart.js";
import { openDialog, reasonField } from "/dialog.js";
import { makeGraph } from "/graph.js";
import { ITEM_STATES, makeItems } from "/items.js";
import { makeLedger } from "/ledger.js";

const VIEWS = { items: "Items", graph: "Graph", ledger: "Ledger", time: "Time", log: "Timeline" };
const DRAW_PAUSE = 150; // between two drawings
const BARS = 300;
const OVER = ["completed", "cancelled", "discarded"];

export function showFlow({ main, name: id, place, signal }) {
  const name = encodeURIComponent(id);
  const path = `/v1/flows/${name}`;
  const jobs = new Map();
  let groups = new Map(); // what they wait for
  let status = null;
  let isFresh = true; // the next event has all jobs
  let view = VIEWS[place.get("view")] ? place.get("view") : null;
  let sums = null; // items by state, where there is a manager
  let timer = null;
  let stream = new AbortController();
  const names = h("div.names");
  const told = h("p.waits");
  const away = alertLine();
  const meter = h("div.meter.wide");
  const tabs = chipGroup("View", Object.entries(VIEWS).map(([name, label]) =>
    h("button.chip", { dataset: { key: name }, onclick: () => turn(name) }, label)));
  const panel = h("div");
  const common = { path, place, keep, act, send, signal };
  const [ledger, items] = [makeLedger(common), makeItems({ ...common, headline: (counts) => { sums = counts; draw(); } })];
  const graph = makeGraph((job) => { turn("ledger"); ledger.open(job); });
  const chart = h("div.chart");
  const lines = h("ol.timeline");
  const panels = { items: items.element, graph: graph.element, ledger: ledger.element, time: chart, log: lines };
  const buttons = makeButtons();
  const waiting = skeleton();
  const temporal = outsideLink("Temporal");
  const content = h("div.run", { hidden: true },
    h("div.head", names, buttons.element),
    told, meter, h("section.card", tabs, panel));
  main.append(h("p.back", link("#/flows", "\u2190 Flows"), link(`#/?flow=${name}&flows=true`, "Its runs"), temporal), waiting, away, content);

  function turn(to) {
    view = to;
    keep({ view: to });
    draw();
  }

  function keep(change) {
    for (const [each, value] of Object.entries(change)) value ? place.set(each, value) : place.delete(each);
    history.replaceState(null, "", addressOf(`#/flows/${name}`, place));
  }

  function watch() {
    stream.abort();
    stream = new AbortController();
    follow(`${path}/changes`, {
      signal: AbortSignal.any([signal, stream.signal]),
      final: [401, 403, 404],
      begun: () => { isFresh = true; },
      told: (how, isFinal, since) => {
        away.hidden = how === "live";
        if (isFinal) waiting.hidden = true;
        setText(away, how === "live" ? "" : isFinal ? how : noAnswer(how, since));
      },
      event: ({ kind, data }) => {
        if (kind !== "flow") return null;
        if (isFresh) jobs.clear();
        isFresh = false;
        for (const gone of data.removed) jobs.delete(gone);
        for (const job of data.jobs) jobs.set(job.path, job);
        if (data.groups) groups = new Map(data.groups.map((group) => [group.path, group.deps]));
        status = data.status;
        timer ??= setTimeout(draw, DRAW_PAUSE);
        return data.is_over ? "end" : kind;
      },
    });
  }

  function draw() {
    clearTimeout(timer);
    timer = null;
    if (!status || signal.aborted) return;
    waiting.hidden = true;
    content.hidden = false;
    const isManaged = [...jobs.values()].some((job) => job.kind === "manager");
    tabs.firstChild.hidden = !isManaged;
    view ??= isManaged ? "items" : "graph";
    document.title = `${status.state} \u00b7 ${id}`;
    fill(names, [h("h1", status.name && status.name !== id ? `${status.name} \u00b7 ${id}` : id), pill(status.state), lasting(status.started_at, status.stopped_at)]);
    const shown = view === "items" && sums; // the items are counted again only while they are shown
    if (shown) {
      const [all, over] = [sum(sums), sum(sums, "completed", "failed", "cancelled", "refused")];
      setText(told, `${number(over)} of ${number(all)} items over (${Math.floor(100 * over / (all || 1))} %), ${number(sums.failed)} failed`);
    } else setText(told, `${counted(status.total, "job")}: ${stateCounts(status.counts, JOB_STATES)}`);
    setBar(meter, shown || status.counts, shown ? ITEM_STATES : JOB_STATES);
    for (const tab of tabs.children) press(tab, tab.dataset.key === view);
    if (panel.firstChild !== panels[view]) {
      panel.replaceChildren(panels[view]);
      if (view === "items") items.load();
    }
    buttons.update();
    if (view === "graph") graph.draw(jobs, groups);
    if (view === "ledger") ledger.draw(jobs, status.counts);
    if (view === "time") drawTimes();
    if (view === "log") drawLines();
  }

  function drawTimes() {
    const begun = [...jobs.values()].filter((job) => job.began_at).sort((one, other) => (one.began_at < other.began_at ? -1 : 1));
    drawChart(chart, begun.slice(0, BARS).map((job) => ({
      name: job.path, href: job.run_id ? `#/runs/${job.run_id}` : null,
      parts: [{ from: job.began_at, to: job.ended_at, status: job.state }],
    })), begun.length > BARS ? `The first ${BARS} of ${number(begun.length)} jobs.` : "");
  }

  async function drawLines() {
    const answer = await get(path, signal).catch(() => null); // the stream tells what is wrong
    if (answer) fill(lines, answer.timeline.reverse().map(makeLine));
  }

  // `send(verb, body, said)`: asks for it, and looks again. `act` tells what goes wrong, too.
  async function send(verb, body, said) {
    const answer = await post(`${path}/${verb}`, body);
    const unchanged = answer.left_out.map((each) => `${each.job} ${each.reason}`);
    toast(answer.problem ?? [said(answer.count), ...unchanged].join("; "));
    watch();
  }

  function act(...asked) {
    return send(...asked).catch((error) => toast(error.message));
  }

  function askToStop() {
    const reason = reasonField();
    openDialog({
      title: `Stop ${id}?`, submit: "Stop", danger: true, first: reason.input,
      content: [h("p.quiet", "All its jobs are cancelled, and those under way are asked to end."), reason.element],
      send: () => send("stop", { reason: reason.value() }, () => "Stop asked."),
    });
  }

  function makeButtons() {
    const button = (name, verb, body, said) => h("button", { hidden: true, onclick: () => act(verb, body, said) }, name);
    const all = {
      retry: button("Retry what failed", "retry", {}, (count) => `${number(count)} retried.`),
      pause: button("Pause", "hold", { hold: "pause" }, () => "Nothing more starts."),
      resume: button("Resume", "hold", { hold: "run" }, () => "The flow goes on."),
      drain: button("Drain", "hold", { hold: "drain" }, () => "What runs may end; the rest is cancelled."),
      stop: h("button.danger", { hidden: true, onclick: askToStop }, "Stop \u2026"),
    };
    const update = () => {
      const may = mayOperate();
      const isOver = OVER.includes(status.state);
      all.retry.hidden = !may || !(status.counts.discarded || status.counts.cancelled || status.counts.retryable);
      all.pause.hidden = !may || isOver || status.state === "paused";
      all.resume.hidden = !may || status.state !== "paused";
      all.drain.hidden = all.stop.hidden = !may || isOver;
    };
    return { element: h("div.actions", Object.values(all)), update };
  }

  get(path, signal).then((found) => lead(temporal, found.temporal_url), () => {});
  listen(({ kind }) => kind === "ready" && draw(), signal); // by now the token's scopes may be known
  watch();
}
