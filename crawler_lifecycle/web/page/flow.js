import { addressOf, alertLine, chipGroup, counted, duration, fill, follow, get, h, JOB_STATES, lasting, lead, link, listen, lookOfJob, makeLine, mayOperate, noAnswer, number, outsideLink, patch, post, press, setBar, setText, skeleton, stateCounts, stateInWords, sum, toast } from "/kit.js";
import { drawChart } from "/chart.js";
import { openDialog, question, reasonField } from "/dialog.js";
import { flowPill, reasonInWords } from "/standing.js";
import { makeGraph } from "/graph.js";
import { ENDED, ITEM_STATES, makeItems } from "/items.js";
import { askToReject, makeLedger } from "/ledger.js";

const VIEWS = { items: "Items", graph: "Graph", ledger: "Jobs", time: "Gantt", log: "Events" };
const DRAW_PAUSE = 150; // between two drawings
const BARS = 300;
const OVER = ["completed", "cancelled", "discarded"];
const STUCK = /^(host:|silent_host|no_supervisor|no_host|unknown_step|broken_module)/; // what only a person ends
const WHY_AGAIN = 5000;
const HOST_PATIENCE = 5000; // flows/rules/words.py has the same value
const MOST_ASKS = 5;

export function showFlow({ main, name: id, place, signal }) {
  const name = encodeURIComponent(id);
  const path = `/v1/flows/${name}`;
  const jobs = new Map();
  let groups = new Map(); // what they wait for
  let status = null;
  let isFresh = true; // the next event has all jobs
  let view = VIEWS[place.get("view")] ? place.get("view") : null;
  let managers = [];
  let stuck = []; // what only a person ends, as the API explains it
  let nextWhy = null;
  let timer = null;
  let stream = new AbortController();
  const names = h("div.names");
  const told = h("p.waits");
  const away = alertLine();
  const asks = h("ul.asks", { "aria-label": "What the flow waits for" });
  const meter = h("div.meter.wide");
  const tabs = chipGroup("View", Object.entries(VIEWS).map(([name, label]) =>
    h("button.chip", { dataset: { key: name }, onclick: () => turn(name) }, label)));
  const panel = h("div");
  const ask = (title, submit, about, ...asked) => question(title, submit, about, () => send(...asked));
  const common = { path, place, keep, act, send, signal, ask };
  const [ledger, items] = [makeLedger(common), makeItems(common)];
  const approve = (job) => act("approve", { job }, () => "Approved.");
  const graph = makeGraph((job) => { turn("ledger"); ledger.open(job); }, approve);
  const chart = h("div.chart");
  const lines = h("ol.timeline");
  const panels = { items: items.element, graph: graph.element, ledger: ledger.element, time: chart, log: lines };
  const buttons = makeButtons();
  const waiting = skeleton();
  const temporal = outsideLink("Temporal");
  const content = h("div.run", { hidden: true },
    h("div.head", names, buttons.element),
    told, asks, meter, h("section.card", tabs, panel));
  main.append(h("p.back", link("#/flows", "← Flows"), link(`#/?flow=${name}&flows=true`, "Its runs"), temporal), waiting, away, content);

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
        managers = data.managers;
        for (const { path: job, counts } of managers) jobs.get(job).items = `${number(sum(counts, ...ENDED))} of ${counted(sum(counts, ...ITEM_STATES), "item")}`;
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
    tabs.children[1].hidden = isManaged && jobs.size === 1; // one box says nothing
    view ??= isManaged ? "items" : "graph";
    const standing = flowPill(status.state, sum(managers.map(({ failures }) => failures)));
    document.title = `${standing.textContent} · ${id}`;
    fill(names, [h("h1", status.name && status.name !== id ? `${status.name} · ${id}` : id), standing, lasting(status.started_at, status.stopped_at)]);
    const shown = view === "items" && isManaged && Object.fromEntries(ITEM_STATES.map((each) => [each, sum(managers.map(({ counts }) => counts[each]))]));
    const isFinal = OVER.includes(status.state) || managers.every((each) => each.is_exhausted); // otherwise more may come
    if (shown) {
      const [all, over] = [sum(shown), sum(shown, ...ENDED)];
      setText(told, [isFinal ? `${number(over)} of ${number(all)} items over (${Math.floor(100 * over / (all || 1))} %)` : `${number(over)} of ${number(all)} items so far`,
        `${number(shown.failed)} failed`, ...pace(over, all - over, isFinal)].join(", "));
    } else setText(told, `${counted(status.total, "job")}: ${stateCounts(status.counts, JOB_STATES)}`);
    meter.hidden = Boolean(shown) && !isFinal;
    setBar(meter, shown || status.counts, shown ? ITEM_STATES : JOB_STATES);
    for (const tab of tabs.children) press(tab, tab.dataset.key === view);
    if (panel.firstChild !== panels[view]) {
      panel.replaceChildren(panels[view]);
      if (view === "items") items.load();
    }
    buttons.update();
    drawAsks();
    nextWhy ??= setTimeout(askWhy);
    if (view === "graph") graph.draw(jobs, groups);
    if (view === "ledger") ledger.draw(jobs, status.counts);
    if (view === "time") drawTimes();
    if (view === "log") drawLines();
  }

  function pace(over, left, isFinal) {
    const since = Date.parse(status.started_at);
    if (!over || !since || OVER.includes(status.state)) return [];
    const each = (Date.now() - since) / over;
    return [`${number(Math.round(3_600_000 / each))} an hour`, isFinal && left > 0 && `about ${duration(each * left)} left`].filter(Boolean);
  }

  async function askWhy() {
    const why = await get(`${path}/why`, signal).catch(() => null); // the stream reports the problem
    if (signal.aborted) return;
    const ends = (each) => (each.because.length && each.state !== "discarded" ? each.because.flatMap(ends) : [each]);
    const isOld = ({ since }) => !since || Date.now() - Date.parse(since) > HOST_PATIENCE;
    stuck = why ? ends(why).filter((each) => each.state === "discarded" || (STUCK.test(each.cause ?? "") && isOld(each))) : [];
    drawAsks();
    nextWhy = OVER.includes(status.state) ? null : setTimeout(() => (document.hidden ? nextWhy = null : askWhy()), WHY_AGAIN);
  }

  function drawAsks() {
    const open = [...jobs.values()].filter(({ kind, state }) => kind === "approval" && state === "available");
    patch(asks, [...open, ...stuck.filter((each) => each.path !== id)].slice(0, MOST_ASKS), (each) => `${each.path}${each.state}${each.cause ?? ""}`, ({ path: job, kind, state, cause }) => h("li",
      { dataset: { status: state } }, kind ? [h("span", h("b", job), " waits for a decision"),
        ...(mayOperate() ? [h("button", () => approve(job), "Approve"), h("button", () => askToReject(ask, job), "Reject …")] : [])]
        : h("span", h("b", job), `${state === "discarded" ? " failed: " : " "}${reasonInWords(cause)}`)));
  }

  function drawTimes() {
    const begun = [...jobs.values()].filter((job) => job.began_at).sort((one, other) => (one.began_at < other.began_at ? -1 : 1));
    drawChart(chart, begun.slice(0, BARS).map((job) => ({
      name: job.path, href: job.run_id ? `#/runs/${job.run_id}` : null,
      parts: [{ from: job.began_at, to: job.ended_at, status: lookOfJob(job), word: stateInWords(job.state) }],
    })), begun.length > BARS ? `The first ${BARS} of ${number(begun.length)} jobs.` : "");
  }

  async function drawLines() {
    const answer = await get(path, signal).catch(() => null); // the stream reports the problem
    if (answer) fill(lines, answer.timeline.reverse().map(makeLine));
  }

  // `send(verb, body, said)`: sends the request, and looks again. `act` also shows problems.
  async function send(verb, body, said) {
    const answer = await post(`${path}/${verb}`, body);
    const unchanged = answer.left_out.map((each) => `${each.job} ${each.reason}`);
    toast(answer.problem ?? [said(answer.count), ...unchanged].join("; "));
    watch();
  }

  function act(...asked) {
    return send(...asked).catch((error) => toast(error.message));
  }

  function makeButtons() {
    const button = (name, onclick, title) => h("button", { hidden: true, title, onclick }, name);
    const all = {
      retry: button("Retry what failed …", () => {
        const failed = sum(status.counts, "discarded", "cancelled", "retryable");
        question(`Retry ${counted(failed, "job")}?`, "Retry", `Each failed or cancelled job of ${id} gets another attempt. All other results are kept.`,
          () => send("retry", {}, (count) => `${counted(count, "job")} retried.`), false);
      }),
      pause: button("Pause", () => act("hold", { hold: "pause" }, () => "Paused: nothing more starts."), "Start no further job; jobs under way finish"),
      resume: button("Resume", () => act("hold", { hold: "run" }, () => "The flow continues.")),
      drain: button("Drain …", () => ask(`Drain ${id}?`, "Drain", "Jobs under way finish. All jobs that have not started are cancelled.",
        "hold", { hold: "drain" }, () => "Draining: nothing more starts.")),
      stop: button("Stop …", () => {
        const reason = reasonField();
        openDialog({
          title: `Stop ${id}?`, submit: "Stop", danger: true, first: reason.input,
          content: [h("p.quiet", "All its jobs are cancelled, and those under way are asked to end."), reason.element],
          send: () => send("stop", { reason: reason.value() }, () => "Stop asked."),
        });
      }),
    };
    all.stop.className = "danger";
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
