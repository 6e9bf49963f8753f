import { chipGroup, choice, drawChips, emptyLine, fill, get, h, inWords, JOB_STATES, lasting, lookOfJob, may, mayOperate, number, options, pill, runLink, say, searchField, setText, stateInWords, sum, time } from "/kit.js";
import { reasonInWords, shownReason } from "/standing.js";
import { makeGrid } from "/table.js";

const MOST = 100; // lines at first, and this many more each time
const ENDED = ["cancelled", "discarded", "retryable"];
const OPEN = ["suspended", "available", "scheduled", "executing", "retryable"];

export function makeLedger({ path, place, keep, act, ask, signal }) {
  let jobs = new Map();
  let counts = {};
  let most = MOST;
  let opened = place.get("job");
  let below = null;
  const chips = chipGroup("State of jobs");
  const search = searchField("Job or label", { value: place.get("q"), oninput: () => filter({ q: search.value.trim() }) }, "Job or label  ( / )");
  const outcome = choice("Outcome", {}, null, (value) => filter({ outcome: value }));
  const buttons = ({ key, state, kind }) => {
    const isOpen = OPEN.includes(state);
    const button = (name, verb, body, said) => h("button", () => act(verb, body, said), name);
    return mayOperate() && h("div.actions",
      kind === "approval" && isOpen && [button("Approve", "approve", { job: key }, () => "Approved."),
        h("button", () => askToReject(ask, key), "Reject …")],
      ENDED.includes(state) && button("Retry", "retry", { jobs: [key] }, (count) => `${number(count)} retried.`),
      kind !== "approval" && isOpen && h("button", () => ask(`Cancel ${key}?`, "Cancel the job",
        `${state === "executing" ? "It is asked to end, also a crawl under way. " : ""}Jobs that need it are cancelled, too.`,
        "cancel", { jobs: [key] }, (count) => `${number(count)} cancelled.`), "Cancel …"));
  };
  const grid = makeGrid("tasks.jobs", {
    "Job|id": ({ key }) => h("button.open", { "aria-expanded": String(key === opened), onclick: () => open(key === opened ? null : jobs.get(key)) }, key),
    State: (job) => pill(lookOfJob(job), stateInWords(job.state)),
    "What|what": ({ title, run_id: run, labels }) => [`${title} `, run && runLink(run), labels[0] && h("small", ` ${labels.join(" ")}`)],
    "Why|why": (job) => h("span", { title: whyOf(job) }, whyOf(job)),
    "Took|took": (job) => lasting(job.began_at, job.ended_at),
    "|act": buttons,
  }, { below: ({ key }) => key === opened && (below ??= makeDetails(path, signal)) });
  const empty = emptyLine();
  const more = h("button", { hidden: true, onclick: () => { most += MOST; redraw(); } });
  const element = h("div.ledger", h("div.tools", chips, outcome, search), grid.element, empty, h("div.pager", more));

  function filter(change) {
    most = MOST;
    keep(change);
    redraw();
  }

  const redraw = () => draw(jobs, counts);
  function draw(latest, latestCounts) {
    jobs = latest;
    counts = latestCounts;
    const [state, text, word] = [place.get("state"), place.get("q")?.toLowerCase(), place.get("outcome")];
    drawChips(chips, JOB_STATES.filter((each) => counts[each] || each === state), (each) => sum(counts, each), (each) => each === state, (each) => filter({ state: each }));
    drawOutcomes(word);
    const found = [...jobs.values()].filter((job) => (!state || job.state === state)
      && (!text || [job.path, job.title, ...job.labels].some((each) => each.toLowerCase().includes(text))) && (!word || job.outcome === word))
      .sort((one, other) => one.number - other.number);
    const shown = found.slice(0, most);
    if (opened && !shown.some((job) => job.path === opened) && jobs.has(opened)) shown.unshift(jobs.get(opened));
    grid.show(shown.map((job) => ({ key: job.path, ...job })));
    if (jobs.has(opened)) below?.update(jobs.get(opened));
    say(empty, shown.length ? "" : "No such jobs.");
    more.hidden = found.length <= most;
    setText(more, `${number(most)} of ${number(found.length)}: show more`);
  }

  function drawOutcomes(word) {
    const words = [...new Set([...jobs.values()].map((job) => job.outcome).filter(Boolean))].sort().slice(0, 100);
    outcome.hidden = !words.length;
    fill(outcome, options({ "": "any outcome", ...Object.fromEntries(words.map((each) => [each, each])) }, word));
  }

  function open(job) {
    opened = job?.path ?? null;
    below = null;
    keep({ job: opened });
    element.querySelector(".below")?.remove();
    redraw();
    if (job) element.querySelector(".below")?.scrollIntoView({ block: "nearest" });
  }

  return { element, draw, open };
}

export const askToReject = (ask, job) => ask(`Reject ${job}?`, "Reject", "Jobs that need its approval are cancelled.",
  "approve", { job, approved: false }, () => "Rejected.");

function whyOf(job) {
  const why = ENDED.includes(job.state) ? shownReason(job) : job.state === "completed" ? inWords(job.outcome) : reasonInWords(job.cause);
  return why + (job.attempt > 1 ? ` (attempt ${job.attempt})` : "");
}

function makeDetails(path, signal) {
  const chain = h("ul.events");
  const attempts = h("ul.events");
  const given = h("pre.log");
  const result = h("pre.log");
  const element = h("div.evidence", h("h2", "Why"), chain, h("h2", "Attempts"), attempts,
    h("h2", "Arguments"), given, h("h2", "Result"), result);
  let shown = "";
  element.update = async (job) => {
    const state = `${job.path}${job.state}${job.attempt}${job.cause}${job.run_id}`;
    if (state === shown) return;
    shown = state;
    setText(given, job.args === null ? "none" : JSON.stringify(job.args, null, 1));
    const query = `job=${encodeURIComponent(job.path)}`;
    const [why, made, kept] = await Promise.allSettled([get(`${path}/why?${query}`, signal), get(`${path}/attempts?${query}`, signal),
      may("results") ? get(`${path}/results?${query}`, signal) : Promise.reject(new Error("The token lacks the scope results."))]);
    if (signal.aborted || state !== shown) return;
    chain.replaceChildren(...(why.value ? [because(why.value)] : [h("li", why.reason.message)]));
    attempts.replaceChildren(...(made.value?.attempts.length ? made.value.attempts.map(attemptLine) : [h("li", "none yet")]));
    setText(result, kept.value ? JSON.stringify(kept.value.results, null, 1) : kept.reason.message);
  };
  return element;
}

const because = (why) => h("li", h("b", why.path), ` ${stateInWords(why.state)}`, why.cause && `: ${reasonInWords(why.cause)}`, why.since && [", since ", time(why.since)],
  why.because.length > 0 && h("ul", why.because.map(because), why.more > 0 && h("li", `and ${number(why.more)} more`)));

const attemptLine = (each) => h("li", h("b", `attempt ${each.attempt}`), " ", time(each.created_at), " ",
  each.run_id && [runLink(each.run_id), " "], [each.outcome ?? (each.ended_at ? each.kind : "under way"), each.reason].filter(Boolean).join(": "),
  each.error && h("pre.log", each.error));
