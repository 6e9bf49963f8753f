// How are times, numbers and states told to people?

import { h } from "/dom.js";

export const TASK_STATES = [
  "QUEUED", "DEPLOYING", "PENDING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED", "LOST",
];
export const RUN_STATES = ["INITIALIZING", "PROCESSING", "STOPPING", "COMPLETED", "FAILED"];
const OVER = new Set(["COMPLETED", "FAILED"]);
const CAUSES = {
  main_job: "the main job to run", dispatcher: "the dispatcher", capacity: "room in the cluster",
  quota: "quota in the cluster", unschedulable: "a node that fits",
  retry_pause: "the pause before its next attempt", run_limit: "its turn (limit of the run)",
  admission: "a place (limit of the installation, a crawler or a label)", paused: "the end of a pause",
};

export const isOver = (run) => OVER.has(run.status);
export const number = (value) => value.toLocaleString("en");

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)}d ${hours % 24}h`;
  if (hours) return `${hours}h ${String(minutes).padStart(2, "0")}m`;
  return minutes ? `${minutes}m ${String(seconds % 60).padStart(2, "0")}s` : `${seconds}s`;
}

// One clock for the whole page, that of evidence and logs. The reader's own is shown on hover.
const CLOCK = { timeZone: "UTC", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const today = new Intl.DateTimeFormat("en-GB", CLOCK);
const before = new Intl.DateTimeFormat("en-GB", { ...CLOCK, day: "numeric", month: "short", second: undefined });
const exact = new Intl.DateTimeFormat("en-GB", { ...CLOCK, day: "numeric", month: "short", year: "numeric" });
const own = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const day = (at) => at.toISOString().slice(0, 10);

export function moment(iso) {
  if (!iso) return "";
  const at = new Date(iso);
  return (day(at) === day(new Date()) ? today : before).format(at);
}

export const time = (iso) =>
  (iso ? h("time", { datetime: iso, title: `${exact.format(new Date(iso))} UTC, ${own.format(new Date(iso))}` }, moment(iso)) : "");

// To the second, for the record.
export const utc = (iso) => (iso ? `${exact.format(new Date(iso))} UTC` : null);

// A duration that goes on until `until`, or for ever: see `tick`.
export function lasting(since, until) {
  const shown = h("span", { class: "num" });
  setLasting(shown, since, until);
  return shown;
}

export function setLasting(element, since, until) {
  if (since && !until) element.dataset.since = since;
  else delete element.dataset.since;
  element.textContent = since ? duration((until ? new Date(until) : new Date()) - new Date(since)) : "";
}

setInterval(() => {
  for (const each of document.querySelectorAll("[data-since]")) {
    each.textContent = duration(Date.now() - new Date(each.dataset.since));
  }
}, 1000);

// A run that somebody stopped ends FAILED, and is no failure to look for.
const wasStopped = (run) => run.status === "FAILED" && ["stopped", "stopped_forced"].includes(run.reason);
export const shownStatus = (run) => (wasStopped(run) ? "STOPPED" : run.status);

export const pill = (status) => h("span", { class: "pill", dataset: { status } }, status.toLowerCase());

export function setPill(element, status) {
  element.dataset.status = status;
  if (element.textContent !== status.toLowerCase()) element.textContent = status.toLowerCase();
}

export const counts = (tasks) =>
  TASK_STATES.filter((state) => tasks[state]).map((state) => `${number(tasks[state])} ${state.toLowerCase()}`).join(", ");

// A bar of all tasks, a part for each state.
export function setBar(element, tasks) {
  const there = TASK_STATES.filter((state) => tasks[state]);
  const wanted = there.map((state) => `${state}:${tasks[state]}`).join();
  if (element.dataset.shown === wanted) return;
  element.dataset.shown = wanted;
  element.title = counts(tasks);
  element.replaceChildren(...there.map((state) => {
    const part = h("i", { dataset: { status: state } });
    part.style.flexGrow = tasks[state];
    return part;
  }));
}

export function taskCount(tasks) {
  const all = Object.values(tasks).reduce((sum, each) => sum + each, 0);
  const over = ["SUCCEEDED", "FAILED", "STOPPED", "LOST"].reduce((sum, state) => sum + (tasks[state] ?? 0), 0);
  return over === all ? number(all) : `${number(over)}/${number(all)}`;
}

export const cause = (name) => CAUSES[name] ?? name.replaceAll("_", " ");

export const scopeInWords = (scope) => (scope === "installation" ? "the installation" : scope.replace(":", " "));

// Whether it waits for its permit. A run that is being stopped does so no more, whatever its row still says.
const wasHeld = (run) => Boolean(run.held_by) && !run.admitted_at;
const mayWait = ["INITIALIZING", "PROCESSING"]; // a reopened run whose main job succeeded before is PROCESSING
export const isInLine = (run) => wasHeld(run) && mayWait.includes(run.status) && run.intent === "RUN";

// What a run waits for, in a few words; empty if it is over and all is said.
export function waitsFor(run) {
  if (isOver(run)) return run.export_state === "pending" ? "the export" : "";
  if (run.waiting_cause && isInLine(run)) return `its permit: ${run.waiting_message} (${scopeInWords(run.held_by)})`;
  if (run.waiting_cause && !wasHeld(run)) return cause(run.waiting_cause) + (run.waiting_message ? `: ${run.waiting_message}` : "");
  if (run.status === "STOPPING") return "the proof that nothing of it runs any more";
  if (run.status === "INITIALIZING") return run.tasks.QUEUED && Object.keys(run.tasks).length === 1
    ? "the main job to be deployed" : "the main job to run";
  const alive = ["QUEUED", "DEPLOYING", "PENDING", "RUNNING", "STOPPING"].reduce((n, s) => n + (run.tasks[s] ?? 0), 0);
  return alive ? `${number(alive)} task${alive === 1 ? "" : "s"}` : "the last look";
}

// What a run has crawled by its own account: the best known sums.
export function crawled(stats) {
  return ["items", "pages", "bytes", "errors"].filter((name) => Number.isFinite(stats?.[name]))
    .map((name) => (name === "bytes" ? size(stats.bytes) : `${number(stats[name])} ${stats[name] === 1 ? name.slice(0, -1) : name}`))
    .join(", ");
}

function size(bytes) {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.abs(bytes) || 1) / 3)));
  return `${number(Number((bytes / 1000 ** power).toPrecision(3)))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

// Why, in one sentence if there is one.
export const endedBecause = (run) => (run.explanation?.text ?? inWords(run.reason)).replace(/\.$/, "");

// What a line of the list says of a run that is over: what it has crawled, or why it failed and what it crawled before.
export function endedWith(run) {
  const why = run.reason === "all_succeeded" && run.stats ? "" : endedBecause(run);
  return [why, crawled(run.stats)].filter(Boolean).join(" \u00b7 ");
}

export const inWords = (reason) => (reason ?? "").replaceAll("_", " ");
