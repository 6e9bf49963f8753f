import { addressOf, attempt, capital, crawled, crawlerLink, duration, emptyLine, endedBecause, fill, get, h, inWords, isInLine, isOpen, isOver, lasting, lead, link, listen, makeLine, mayOperate, named, number, outsideLink, pairs, pauseAfter, pill, post, progress, runLink, save, say, scopeInWords, setText, shownStatus, skeleton, standing, stateCounts, sum, time, took, utc, when } from "/kit.js";
import { phasesOf } from "/phases.js";
import { commandButton } from "/table.js";
import { openStart } from "/start.js";
import { askToStop } from "/stop.js";
import { makeTasks } from "/tasks.js";

const LIMITS = { max_duration_seconds: "in all", start_limit_seconds: "to start", grace_seconds: "of grace" };
const SETTLE = 250;
const LEAST_ITEMS = 0.5; // of the run to compare with: fewer are marked
const WAIT = 500; // for the run to compare with
const IN_LINE = 10_000; // others leave the line without a change of this run

export function showRun({ main, name: id, place, list, signal }) {
  let view = null;
  let good = null; // the run to compare with, asked for once
  let timer = null;
  let lineTimer = null;
  let hasJudged = false; // whether the log of the task that failed the run was opened, if there is one
  let asked = 0;
  let answered = 0; // the latest of those asked for
  const names = h("div.names");
  const waits = h("p.waits");
  const held = h("p.quiet", { hidden: true });
  const beside = h("p.quiet.beside");
  const problem = h("p.problem", { hidden: true });
  const missing = emptyLine();
  const waiting = skeleton();
  const phases = h("ol.phases", { id: "phases" });
  const stop = h("section.card.stopping", { hidden: true, "aria-label": "Stop" }, h("h2", "Stop"), phases);
  const facts = h("dl.facts");
  const log = h("ol.timeline");
  const exports = h("ul.exports");
  const none = h("p.quiet");
  const tasks = makeTasks(id, place, signal, again);
  const buttons = makeButtons();
  const content = h("div.run", { hidden: true },
    h("div.head", names, buttons.element),
    waits, beside, held, problem, stop, tasks.element,
    h("div.columns",
      h("section.card", h("h2", "Timeline"), log),
      h("section.card", h("h2", "Details"), facts, h("h2", "Exports"), exports, none)));
  const [history, temporal] = [h("span"), outsideLink("Temporal")];
  main.append(h("p.back", link(list, "← Runs"), history, temporal), waiting, missing, content);

  async function load() {
    const mine = ++asked;
    try {
      const latest = await get(`/v1/runs/${encodeURIComponent(id)}`, signal);
      if (mine < answered || (view && view.run.changed_at > latest.run.changed_at)) return;
      answered = mine;
      view = latest;
      if (content.hidden) await Promise.race([compare(view.run), new Promise((resume) => setTimeout(resume, WAIT))]); // otherwise all moves when it comes
      missing.hidden = waiting.hidden = true;
      content.hidden = false;
      draw();
      if (!hasJudged) showWhy(view.run);
      clearTimeout(lineTimer);
      if (isInLine(view.run)) lineTimer = setTimeout(load, IN_LINE);
    } catch (error) {
      if (signal.aborted) return;
      missing.hidden = Boolean(view);
      waiting.hidden = Boolean(view) || !isOpen(error);
      setText(missing, error.message);
      again(error);
    }
  }

  function soon(pause = SETTLE) {
    timer ??= setTimeout(async () => {
      timer = null;
      await Promise.all([load(), tasks.load()]);
    }, pause);
  }

  // What was missed may have been the last change: no other would have it read.
  function again(error) {
    if (isOpen(error)) soon(pauseAfter(error));
  }

  function draw() {
    const { run } = view;
    fill(names, [h("h1", `${run.crawler} · run ${run.run_id}`), ...standing(run), lasting(run.begun_at, run.finished_at)]);
    fill(history, [crawlerLink(run.crawler)]);
    lead(temporal, view.temporal_url);
    document.title = `${shownStatus(run).toLowerCase()} · run ${run.run_id}`;
    drawWaits(run);
    compare(run);
    const told = phasesOf(view);
    stop.hidden = !told.length;
    fill(phases, told.map(({ state, title, text, at, due }) => h("li", { dataset: { state } }, h("b", title),
      h("span", text, due && ["; will be killed ", when(due)]), h("small", time(at)))));
    fill(log, view.log.map(makeLine).reverse());
    drawFacts(run);
    fill(exports, view.exports.map((each, at) => h("li", h("b", inWords(each.kind)), pill(each.state), h("span", each.problem ?? (each.location === view.exports[at - 1]?.location ? "" : each.location)))));
    none.hidden = view.exports.length > 0;
    setText(none, isOver(run) ? "None." : "When the run is over.");
    tasks.know(run.tasks);
    buttons.update(run);
  }

  // Once: a reader may close it.
  function showWhy(run) {
    if (!isOver(run)) return;
    hasJudged = true;
    const task = shownStatus(run) === "FAILED" ? run.explanation?.task : null;
    if (Number.isInteger(task) && !place.has("open")) tasks.show(task, false);
  }

  function drawWaits(run) {
    const decided = isOver(run) ? run.explanation?.task : null;
    const text = isOver(run)
      ? `${sentence(run)}.${sum(run.tasks) > 1 ? ` ${stateCounts(run.tasks)}.` : ""}`
      : `${capital(progress(run))}${view.place && isInLine(run) ? `, place ${view.place.number ? number(view.place.number) : "1,000+"} of ${number(view.place.length)}` : ""}`;
    const since = !isOver(run) && run.waiting_since;
    fill(waits, [text, since && [", since ", time(since), " (", lasting(since), ")"],
      Number.isInteger(decided) && [" ", h("button.link", () => tasks.show(decided), `Log of task ${decided}`)]].flat());
    say(held, run.status === "PROCESSING" && run.held_by && run.admitted_at
      && `Child tasks wait for a limit or a pause of ${scopeInWords(run.held_by)}.`);
    say(problem, run.look_problem && !isOver(run) && `Cluster, last seen ${utc(run.last_look_at)}: ${run.look_problem}`);
  }

  async function compare(run) {
    const address = addressOf("/v1/runs", { crawler: run.crawler, status: "COMPLETED", flows: true, since: "2000-01-01T00:00Z", until: run.created_at, limit: 1 });
    good ??= get(address, signal).then(({ runs }) => runs[0], () => null);
    const before = await good;
    beside.hidden = !before;
    if (!before) return;
    const [time, items] = [ratio(took(run), took(before)), ratio(run.stats?.items, before.stats?.items)];
    const parts = isOver(run) && [times(time), items !== null && fewer(items)].filter(Boolean).join(", ");
    fill(beside, ["Compared with ", runLink(before.run_id), ` (${[duration(took(before)), crawled(before.stats)].filter(Boolean).join(", ")})`,
      parts ? [": ", items !== null && items < LEAST_ITEMS ? h("b.odd", parts) : parts] : !isOver(run) && `: usually ${duration(took(before))}`, "."].flat());
  }

  function drawFacts(run) {
    const { request } = run;
    const told = {
      Outcome: run.outcome, Reason: inWords(run.reason), Crawled: crawled(run.stats),
      Stats: run.stats && Object.entries(run.stats).map(([name, value]) => `${name}: ${number(value)}`).join("\n"),
      Result: run.result === null ? null : JSON.stringify(run.result, null, 1), "Requested by": request.requested_by, Trigger: run.trigger,
      Arguments: named(request.arguments).join("\n"), Settings: named(request.settings).join("\n"),
      Labels: request.labels.join("\n"), Priority: run.priority ? String(run.priority) : null,
      "Parallel tasks": request.max_parallel,
      Limits: Object.entries(LIMITS).filter(([name]) => request[name]).map(([name, words]) => `${duration(1000 * request[name])} ${words}`).join(", "),
      "Tolerated failures": request.allowed_failures ? `${request.allowed_failures * 100} % of the tasks` : null,
      Created: utc(run.created_at),
      Reopened: run.begun_at === run.created_at ? null : utc(run.begun_at), "Main job started": utc(run.started_at),
      Finished: utc(run.finished_at), "Last look": utc(run.last_look_at),
      "Task time": run.task_seconds && duration(1000 * run.task_seconds),
      "Run UID": run.run_uid, Workflow: run.workflow_id,
    };
    fill(facts, pairs(Object.fromEntries(Object.entries(told).filter(([, value]) => value))));
  }

  function makeButtons() {
    const button = (name, onclick, title) => h("button", { title, hidden: true, onclick }, name);
    const command = (name, path, body, title, said) => commandButton(name, async () => {
      await post(`/v1/runs/${id}/${path}`, body);
      return said;
    }, soon, { title, hidden: true });
    const all = {
      stop: button("Stop", () => askToStop([view.run], false, soon)),
      force: button("Kill now", () => askToStop([view.run], true, soon)),
      resume: command("Resume", "resume", {}, "Its workflow was terminated", "Its workflow continues."),
      reopen: command("Reopen", "resume", { reopen: true }, "Its tasks that did not succeed get another attempt", "Reopened."),
      again: button("Run again", () => openStart(view.run.request), "The same request once more; it can be changed first"),
      archive: button("Download", ({ target }) => attempt(target, () => save(`/v1/runs/${id}/archive`, `run-${id}.zip`, { Accept: "application/json" }))),
      export: command("Export again", "export", {}, null, "Exported."),
    };
    all.stop.className = "danger";
    all.force.className = "link bad"; // it loses data, and is not what people want first
    const update = (run) => {
      const may = mayOperate();
      all.stop.hidden = !may || run.intent !== "RUN" || isOver(run);
      all.force.hidden = !may || run.intent === "FORCE" || isOver(run);
      all.resume.hidden = !may || isOver(run) || !view.findings.some((each) => each.kind === "unsupervised" && !each.closed_at);
      all.reopen.hidden = !may || run.status !== "FAILED";
      all.again.hidden = !may || !isOver(run) || Boolean(run.flow);
      all.archive.hidden = !isOver(run) || !view.exports.some((each) => each.kind === "files_ready" && each.location);
      all.export.hidden = !may || !isOver(run);
    };
    return { element: h("div.actions", Object.values(all)), update };
  }

  listen(({ kind, run }) => {
    if (kind === "ready" || (kind === "run" && (String(run.run_id) === id || run.run_uid === id))) soon();
  }, signal);
  load();
  tasks.load();
}

const ratio = (mine, theirs) => (theirs > 0 && mine >= 0 ? mine / theirs : null);
const times = (time) => (time === null ? "" : `${number(Number(time.toPrecision(2)))} × as long`);
const fewer = (items) => (items === 1 ? "as many items" : `${number(Math.floor(100 * Math.abs(1 - items)))} % ${items < 1 ? "fewer" : "more"} items`);

function sentence(run) {
  const why = endedBecause(run);
  if (shownStatus(run) === "STOPPED") return why[0].toUpperCase() + why.slice(1);
  return run.reason === "all_succeeded" ? "Completed" : `${run.status === "COMPLETED" ? "Completed" : "Failed"}: ${why}`;
}
