// What waits for a person, a host or room, at the top of every view.

import { counted, fill, get, h, link, listen, number } from "/kit.js";

const AGAIN = 15_000;
const AT_FIRST = 400; // after the view's own reading
const SOON = 3000;
const FAILED = "#/?listed=FAILED&within=24h&flows=true";

const flowsLink = ({ total, flows }) => (total === 1 ? `#/flows/${encodeURIComponent(flows[0])}` : "#/flows?attention=true");

const flows = (kind, need, words) => need.total && [kind, `${counted(need.total, "flow")} ${words}`, flowsLink(need)];

const needs = (found) => [
  found.failed_runs && ["bad", `${number(found.failed_runs)}${found.more_failed_runs ? "+" : ""} failed in 24 hours`, FAILED],
  found.without_run?.total && ["bad", `${counted(found.without_run.total, "request")} without a run`, "#/installation"],
  flows("bad", found.with_failed_items, "with failed items"),
  found.saturated_runs && ["bad", `${counted(found.saturated_runs, "run")} stuck without capacity`, "#/installation"],
  flows("bad", found.without_host, "without a host"),
  flows("odd", found.awaiting_approval, "awaiting approval"),
  found.open_findings && ["odd", counted(found.open_findings, "open audit finding"), "#/audits"],
  found.audit_problem && ["odd", "audits are late", "#/audits"],
  found.pauses && ["odd", counted(found.pauses, "pause"), "#/installation"],
].filter(Boolean);

export function showNeeds(element, signal) {
  let timer = null;
  let hasAnswer = false;

  async function load() {
    clearTimeout(timer);
    const found = await get("/v1/attention", signal).catch(() => null); // the view says that the API does not answer
    if (signal.aborted) return;
    hasAnswer ||= Boolean(found);
    if (found) draw(needs(found), found.audit_problem);
    timer = setTimeout(() => document.hidden || load(), AGAIN);
  }

  function draw(lines, why) {
    element.dataset.kind = lines[0]?.[0] ?? "good";
    fill(element, [h("b", lines.length ? "Needs attention" : "Nothing needs attention"),
      ...lines.map(([kind, text, href]) => h("a", { href, dataset: { kind }, title: text === "audits are late" ? why : null }, text)),
      !lines.length && link("#/?within=24h", "nothing failed in 24 hours")]);
  }

  const soon = (pause) => {
    clearTimeout(timer);
    timer = setTimeout(load, pause);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  listen(({ kind }) => kind === "ready" && soon(hasAnswer ? SOON : AT_FIRST), signal);
  document.addEventListener("visibilitychange", () => document.hidden || soon(0), { signal });
}
