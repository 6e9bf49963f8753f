import { may, Problem } from "/api.js";
import { fill, h, patch, press, setText } from "/dom.js";
import { WAITS_FOR } from "/sentences.js";

export const TASK_STATES = [
  "QUEUED", "DEPLOYING", "PENDING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED", "LOST",
];
const IN_A_BAR = [ // what waits leaves the bar empty
  "SUCCEEDED", "FAILED", "LOST", "STOPPED", "STOPPING", "RUNNING",
  "completed", "failed", "refused", "discarded", "cancelled", "running", "executing", "odd", "retryable",
];
export const JOB_STATES = [
  "completed", "cancelled", "discarded", "executing", "retryable", "scheduled", "available", "suspended",
];
export const FLOW_STATES = ["executing", "paused", "completed", "cancelled", "discarded"];
const OVER = new Set(["COMPLETED", "FAILED"]);

export const isOver = (run) => OVER.has(run.status);
export const sum = (counts, ...states) => Object.entries(counts).reduce((all, [state, each]) => all + (!states[0] || states.includes(state) ? each : 0), 0);
// Intl takes longest at the start of the page.
export const number = (value) => String(Math.round(value * 1000) / 1000).replace(/(?<!\.\d*)\B(?=(\d{3})+(?!\d))/g, ",");
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)}d ${hours % 24}h`;
  if (hours) return `${hours}h ${String(minutes).padStart(2, "0")}m`;
  return minutes ? `${minutes}m ${String(seconds % 60).padStart(2, "0")}s` : `${seconds}s`;
}

// One clock for the whole page, as in logs. The reader's own is shown on hover.
// Day, year, time to the second, and to the minute.
const partsOf = (at) => /(\d+ \w+) (\d+) ((\d+:\d+):\d+)/.exec(at.toUTCString()).slice(1);

export function moment(iso) {
  if (!iso) return "";
  const [[day, year, clock, minute], [today, thisYear]] = [new Date(iso), new Date()].map(partsOf);
  return day === today && year === thisYear ? clock : `${day}, ${minute}`;
}

export const noAnswer = (why, since) => `No answer since ${moment(since)}: ${why}. What is shown may be old. Trying again ...`;

const bothClocks = (iso) => `${utc(iso)}, ${String(new Date(iso)).slice(0, 33)}`;

const timeElement = (iso, text, dataset = {}) => iso && h("time", { datetime: iso, dataset, title: bothClocks(iso) }, text);

export const time = (iso) => timeElement(iso, moment(iso));

export const took = (run) => new Date(run.finished_at) - new Date(run.begun_at);

// How long ago, with the time itself on hover.
export const when = (iso) => timeElement(iso, ago(iso), { ago: iso });

function ago(iso) {
  const seconds = Math.round((Date.now() - new Date(iso)) / 1000);
  const [size, unit] = [[86_400, "d"], [3600, "h"], [60, "min"]].find(([most]) => Math.abs(seconds) >= most) ?? [1, "s"];
  const told = `${number(Math.floor(Math.abs(seconds) / size))} ${unit}`;
  if (seconds >= 0 && seconds < 10) return "now";
  return seconds < 0 ? `in ${told}` : `${told} ago`;
}

export function utc(iso) {
  if (!iso) return null;
  const [day, year, clock] = partsOf(new Date(iso));
  return `${day} ${year}, ${clock} UTC`;
}

export const lasting = (since, until) => since && h("span.num", { dataset: until ? {} : { since } },
  duration((until ? new Date(until) : new Date()) - new Date(since)));

setInterval(() => {
  for (const each of document.querySelectorAll("[data-ago]")) setText(each, ago(each.dataset.ago));
  for (const each of document.querySelectorAll("[data-since]")) setText(each, duration(Date.now() - new Date(each.dataset.since)));
}, 1000);

// A run that somebody stopped ends FAILED, and is no failure to look for.
const wasStopped = (run) => run.status === "FAILED" && ["stopped", "stopped_forced"].includes(run.reason);
export const shownStatus = (run) => (wasStopped(run) ? "STOPPED" : run.status);

// Oban's "discarded" is a failure in everybody else's words.
export const stateInWords = (state) => (state === "discarded" ? "failed" : state.toLowerCase());

export const pill = (status, text = stateInWords(status)) => h("span.pill", { dataset: { status } }, text);

// A run or job that completed with another outcome than `finished`.
const isOdd = ({ status, state = status, outcome }) => /^completed$/i.test(state) && Boolean(outcome) && outcome !== "finished";
export const lookOfJob = (job) => (isOdd(job) ? "odd" : job.state);
export const look = (run) => (isOdd(run) ? "odd" : shownStatus(run));

// The status, and beside it the outcome, unless both are the same word.
export const standing = (run) => [
  pill(look(run), shownStatus(run).toLowerCase()),
  run.outcome && run.outcome !== shownStatus(run).toLowerCase() && h("small.outcome", { dataset: { status: isOdd(run) ? "odd" : "" } }, run.outcome),
];

export const drawChips = (chips, states, count, isChosen, choose, isMore) => patch(chips, [null, ...states], (state) => state ?? "all",
  (state) => h("button.chip", { dataset: state ? { status: state } : {}, onclick: () => choose(state) },
    h("span", state ? stateInWords(state) : "all"), h("b.num")),
  (chip, state) => {
    const known = count(state); // null: not yet
    setText(chip.lastChild, known === null ? "" : number(known) + (isMore?.(state) ? "+" : ""));
    chip.classList.toggle("none", known === 0);
    press(chip, isChosen(state));
  });

export const stateCounts = (found, states = TASK_STATES) =>
  states.filter((state) => found[state]).map((state) => `${number(found[state])} ${stateInWords(state)}`).join(", ");

// From the left: what is over, what runs; what waits stays empty.
export function setBar(element, tasks, states = TASK_STATES) {
  const part = (status, size) => size > 0 && h("i", { dataset: { status }, style: { flexGrow: size } });
  element.title = stateCounts(tasks, states);
  fill(element, [...IN_A_BAR.map((state) => part(state, tasks[state])), part("", sum(tasks) - sum(tasks, ...IN_A_BAR))]);
}

export function bar(counts, states = TASK_STATES) {
  const element = h("span.meter");
  setBar(element, counts, states);
  return element;
}

export function taskCount(tasks) {
  const [all, over] = [sum(tasks), sum(tasks, "SUCCEEDED", "FAILED", "STOPPED", "LOST")];
  return over === all ? number(all) : `${number(over)}/${number(all)}`;
}

export const cause = (name) => WAITS_FOR[name] ?? name.replaceAll("_", " ");

export function unknownStatus(noun, given, known) {
  const wrong = given.find((each) => !known.includes(each));
  return wrong === undefined ? "" : `There is no ${noun} "${wrong}".`;
}

export const scopeInWords = (scope) => (scope === "installation" ? "the installation" : scope.replace(":", " "));

// Whether it waits for its permit: never while it is being stopped.
const wasHeld = (run) => Boolean(run.held_by) && !run.admitted_at;
const mayWait = ["INITIALIZING", "PROCESSING"]; // a reopened run whose main job succeeded before is PROCESSING
export const isInLine = (run) => wasHeld(run) && mayWait.includes(run.status) && run.intent === "RUN";

export function progress(run) {
  if (isOver(run)) return run.export_state === "pending" ? "waiting for the export" : "";
  if (run.waiting_cause && isInLine(run)) return `queued: ${run.waiting_message}`;
  if (run.waiting_cause && !wasHeld(run)) return `waiting for ${cause(run.waiting_cause)}${run.waiting_message ? `: ${run.waiting_message}` : ""}`;
  if (run.status === "STOPPING") return "stopping: waiting until its last job is confirmed gone";
  if (run.status === "INITIALIZING") return run.tasks.QUEUED && Object.keys(run.tasks).length === 1
    ? "waiting for the main job to be deployed" : "waiting for the main job to run";
  const [all, running] = [sum(run.tasks), sum(run.tasks, "RUNNING")];
  const alive = sum(run.tasks, "QUEUED", "DEPLOYING", "PENDING", "RUNNING", "STOPPING");
  return alive ? `${number(running)} of ${counted(all, "task")} running` : "waiting for the last check";
}

export function crawled(stats) {
  return ["items", "pages", "bytes", "errors"].filter((name) => Number.isFinite(stats?.[name]))
    .map((name) => (name === "bytes" ? size(stats.bytes) : counted(stats[name], name.slice(0, -1))))
    .join(", ");
}

// Nothing where there are few. A page may have several errors: no percentage.
export const errorRate = (stats) => (stats?.errors > 0 && stats.pages > 0 && stats.errors / stats.pages >= 0.01 ? `${number(Number((stats.errors / stats.pages).toPrecision(2)))} errors per page` : "");

function size(bytes) {
  const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.abs(bytes) || 1) / 3)));
  return `${number(Number((bytes / 1000 ** power).toPrecision(3)))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

export const named = (values) => Object.entries(values).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`);

// What stands in a field, a name and its value on each line.
export function pairsOf({ name: field, value: text }) {
  const found = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const equals = line.indexOf("=");
    if (equals < 1) throw new Problem(0, `expected name=value, not ${line.trim()}`, field);
    found[line.slice(0, equals).trim()] = line.slice(equals + 1).trim();
  }
  return found;
}

export const endedBecause = (run) => (run.explanation?.text ?? inWords(run.reason)).replace(/\.$/, "");

export const inWords = (reason) => (reason ?? "").replaceAll("_", " ");

export function makeLine(line) {
  const who = [line.actor, line.door].filter(Boolean).join(", ");
  return h("li", time(line.at), h("b", inWords(line.event)),
    h("span", line.message, who && h("small", ` — ${who}`)));
}

export const capital = (text) => text && text[0].toUpperCase() + text.slice(1);

export const mayOperate = () => may("operate");
