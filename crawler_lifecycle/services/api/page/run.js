// One run: where it stands, what it waits for, its stop, tasks, timeline, exports and logs.

import { get, isOpen, post } from "/api.js";
import { h, patch, setText, skeleton, toast, visible } from "/dom.js";
import { listen } from "/live.js";
import { phasesOf } from "/phases.js";
import { askToStop } from "/stop.js";
import { makeTasks } from "/tasks.js";
import {
  counts, crawled, endedBecause, isInLine, isOver, inWords, lasting, number, pill, scopeInWords, setLasting, setPill, shownStatus, time,
  utc, waitsFor,
} from "/words.js";

const STAGES = ["Initiation", "Deployment", "Reconciliation", "Completion"];
const SETTLE = 250;
const AGAIN = 2000;
const IN_LINE = 10_000; // others leave the line without a change of this run

// `list`: the address of the list that is gone back to.
export function showRun(main, id, place, list, signal) {
  let view = null;
  let timer = null;
  let lineTimer = null;
  let asked = 0;
  let answered = 0; // the latest of those asked for
  const title = h("h1", {}, `Run ${id}`);
  const status = pill("initializing");
  const took = lasting(null);
  const waits = h("p", { class: "waits" });
  const held = h("p", { class: "quiet", hidden: true });
  const problem = h("p", { class: "problem", hidden: true });
  const missing = h("p", { class: "empty", hidden: true });
  const waiting = skeleton();
  const stages = h("ol", { class: "stages", "aria-label": "Stages" }, STAGES.map((name) => h("li", {}, name)));
  const phases = h("ol", { class: "phases", id: "phases" });
  const stop = h("section", { class: "card stopping", hidden: true, "aria-label": "Stop" }, h("h2", {}, "Stop"), phases);
  const facts = h("dl", { class: "facts" });
  const log = h("ol", { class: "timeline" });
  const exports = h("ul", { class: "exports" });
  const none = h("p", { class: "quiet" });
  const tasks = makeTasks(id, place, signal, again);
  const buttons = makeButtons();
  const content = h("div", { class: "run", hidden: true },
    h("div", { class: "head" }, h("div", { class: "names" }, title, status, took), buttons.element),
    waits, held, problem, stages, stop, tasks.element,
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, "Timeline"), log),
      h("section", { class: "card" }, h("h2", {}, "Details"), facts, h("h2", {}, "Exports"), exports, none)));
  main.append(h("p", { class: "back" }, h("a", { href: list }, "\u2190 Runs")), waiting, missing, content);

  async function load() {
    const mine = ++asked;
    try {
      const latest = await get(`/v1/runs/${encodeURIComponent(id)}`, signal);
      if (mine < answered || (view && view.run.changed_at > latest.run.changed_at)) return;
      answered = mine;
      view = latest;
      missing.hidden = waiting.hidden = true;
      content.hidden = false;
      draw();
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
    if (isOpen(error)) soon(Math.max(AGAIN, (error.pause ?? 0) * 1000));
  }

  function draw() {
    const { run } = view;
    setText(title, `${run.crawler} \u00b7 run ${run.run_id}`);
    document.title = `${shownStatus(run).toLowerCase()} \u00b7 run ${run.run_id}`;
    setPill(status, shownStatus(run));
    setLasting(took, run.begun_at, run.finished_at);
    drawWaits(run);
    drawStages(run, view.main_task);
    const told = phasesOf(view);
    stop.hidden = !told.length;
    patch(phases, told, (phase) => phase.name, () => h("li", {}, h("b"), h("span"), h("small")), updatePhase);
    patch(log, view.log.map((line, place) => ({ ...line, place })).reverse(), (line) => line.place, makeLine, () => {});
    drawFacts(run);
    patch(exports, view.exports, (each) => each.event_id, () => h("li", {}, h("b"), pill("pending"), h("span")), updateExport);
    none.hidden = view.exports.length > 0;
    setText(none, isOver(run) ? "None." : "When the run is over.");
    tasks.know(run.tasks);
    buttons.update(run);
  }

  function drawWaits(run) {
    const decided = isOver(run) ? run.explanation?.task : null;
    const text = isOver(run)
      ? `${sentence(run)}. ${counts(run.tasks)}.`
      : `Waits for ${waitsFor(run)}${view.place && isInLine(run) ? `, place ${number(view.place.number)} of ${number(view.place.length)}` : ""}`;
    const since = !isOver(run) && run.waiting_since;
    if (waits.dataset.text !== text + since + decided) {
      waits.dataset.text = text + since + decided;
      const log = h("button", { type: "button", class: "link", onclick: () => tasks.show(decided) }, `Log of task ${decided}`);
      waits.replaceChildren(visible(text), ...(since ? [", since ", time(since), " (", lasting(since), ")"] : []),
        ...(Number.isInteger(decided) ? [" ", log] : []));
    }
    held.hidden = run.status !== "PROCESSING" || !run.held_by || !run.admitted_at;
    setText(held, run.held_by ? `Child tasks are held by a limit or a pause of ${scopeInWords(run.held_by)}.` : "");
    problem.hidden = !run.look_problem || isOver(run);
    setText(problem, run.look_problem ? `The cluster has not been seen since ${utc(run.last_look_at)}: ${run.look_problem}` : "");
  }

  function drawStages(run, main) {
    const reached = isOver(run) ? 3 : run.started_at ? 2 : main && main !== "QUEUED" ? 1 : 0;
    [...stages.children].forEach((stage, place) => {
      const failed = run.status === "FAILED" && place === 3 && shownStatus(run).toLowerCase();
      stage.dataset.state = place < reached || (isOver(run) && !failed) ? "done" : place > reached ? "later"
        : failed ? failed : run.status === "STOPPING" ? "stopping" : "now";
      if (place === reached && !isOver(run)) stage.setAttribute("aria-current", "step");
      else stage.removeAttribute("aria-current");
    });
  }

  function drawFacts(run) {
    const { request } = run;
    const named = (values) => Object.entries(values).map(([name, value]) => `${name}=${value}`).join("\n");
    const told = {
      "Outcome": run.outcome, "Reason": inWords(run.reason), "Crawled": crawled(run.stats),
      "Stats": run.stats && Object.entries(run.stats).map(([name, value]) => `${name}: ${number(value)}`).join("\n"),
      "Result": run.result === null ? null : JSON.stringify(run.result, null, 1), "Asked by": request.requested_by, "Trigger": run.trigger,
      "Arguments": named(request.arguments), "Settings": named(request.settings),
      "Labels": request.labels.join("\n"), "Priority": run.priority ? String(run.priority) : null,
      "Limits": [
        request.max_parallel && `${request.max_parallel} at once`,
        request.max_duration_seconds && `${request.max_duration_seconds} s in all`,
        request.start_limit_seconds && `${request.start_limit_seconds} s to start`,
        request.grace_seconds && `${request.grace_seconds} s of grace`,
        request.allowed_failures && `${request.allowed_failures * 100} % may fail`,
      ].filter(Boolean).join(", "),
      "Cluster": run.cluster, "Created": utc(run.created_at),
      "Reopened": run.begun_at === run.created_at ? null : utc(run.begun_at), "Main job started": utc(run.started_at),
      "Finished": utc(run.finished_at), "Last look": utc(run.last_look_at),
      "Next look": isOver(run) ? null : utc(run.next_look_at),
      "Run UID": run.run_uid, "Workflow": run.workflow_id, "Epoch": String(run.epoch),
    };
    const shown = Object.entries(told).filter(([, value]) => value);
    patch(facts, shown, ([name]) => name, ([name]) => h("div", {}, h("dt", {}, name), h("dd")),
      (fact, [, value]) => setText(fact.lastChild, value));
  }

  function makeButtons() {
    const button = (name, kind, title, act) =>
      h("button", { type: "button", class: kind, title, hidden: true, onclick: act }, name);
    const command = (path, body, said) => async (event) => {
      event.target.disabled = true;
      try {
        await post(`/v1/runs/${id}/${path}`, body);
        toast(said);
      } catch (error) {
        toast(error.message);
      }
      event.target.disabled = false;
      soon();
    };
    const all = {
      stop: button("Stop", "", "Its jobs are asked to end", () => askToStop(view.run, false, soon)),
      force: button("Force stop", "danger", "Its jobs are told to end and made to at once, without the grace period", () => askToStop(view.run, true, soon)),
      resume: button("Resume", "", "For a run whose workflow was terminated; harmless for others", command("resume", {}, "Its workflow goes on.")),
      reopen: button("Reopen", "", "Its tasks that did not succeed get another attempt", command("resume", { reopen: true }, "Its unfinished tasks get another attempt.")),
      export: button("Export again", "", "Its end is announced and its files are archived again", command("export", {}, "Exported.")),
    };
    const update = (run) => {
      const may = document.body.dataset.scopes?.includes("operate");
      all.stop.hidden = !may || run.intent !== "RUN" || isOver(run);
      all.force.hidden = !may || run.intent === "FORCE" || isOver(run);
      all.resume.hidden = !may || isOver(run);
      all.reopen.hidden = !may || run.status !== "FAILED";
      all.export.hidden = !may || !isOver(run);
    };
    return { element: h("div", { class: "actions" }, Object.values(all)), update };
  }

  listen(({ kind, run }) => {
    if (kind === "ready" || (kind === "run" && (String(run.run_id) === id || run.run_uid === id))) soon();
  }, signal);
  signal.addEventListener("abort", () => [timer, lineTimer].forEach(clearTimeout));
  load();
  tasks.load();
}

function sentence(run) {
  const why = endedBecause(run);
  if (shownStatus(run) === "STOPPED") return why[0].toUpperCase() + why.slice(1);
  return `${run.status === "COMPLETED" ? "Completed" : "Failed"}: ${why}`;
}

function makeLine(line) {
  const who = [line.actor, line.door].filter(Boolean).join(", ");
  return h("li", {}, time(line.at), h("b", {}, inWords(line.event)),
    h("span", {}, line.message, who && h("small", {}, ` \u2014 ${who}`)));
}

function updatePhase(item, phase) {
  item.dataset.state = phase.state;
  const [name, text, when] = item.children;
  setText(name, phase.title);
  setText(text, phase.text);
  if (when.dataset.at !== phase.at) {
    when.dataset.at = phase.at;
    when.replaceChildren(phase.at ? time(phase.at) : "");
  }
}

function updateExport(item, each) {
  const [kind, state, where] = item.children;
  setText(kind, inWords(each.kind));
  setPill(state, each.state);
  setText(where, each.problem ?? each.location ?? "");
}
