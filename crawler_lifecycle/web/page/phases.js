// How far the latest stop of a run has come, by its timeline.

import { counted, isOver, sum } from "/kit.js";

const PHASES = { queued_cancelled: "Queue emptied", jobs_asked: "Jobs asked to end", forced: "Jobs killed", proved: "Confirmed stopped" };

// `due`: when the jobs are killed.
export function phasesOf({ run, log }) {
  const latest = log.slice(log.findLastIndex((line) => line.event === "reopened") + 1);
  const wishes = latest.filter((line) => ["stop", "force stop"].includes(line.event));
  if (!wishes.length) return [];
  const asked = wishes.map((line) => ({
    state: "done", at: line.at, title: line.event === "stop" ? "Stop requested" : "Kill requested",
    text: [line.message, [line.actor, line.door].filter(Boolean).join(", ")].filter(Boolean).join(" — "),
  }));
  const steps = Object.entries(PHASES).map(([event, title]) => {
    const line = latest.findLast((each) => each.event === event);
    return { event, title, at: line?.at, text: line?.message, state: line ? "done" : "later" };
  }).filter((step) => step.event !== "forced" || step.state === "done" || run.intent === "FORCE");
  const reached = steps.findLastIndex((step) => step.state === "done");
  const waiting = steps.findIndex((step, place) => place > reached && step.state === "later");
  if (waiting >= 0 && isOver(run)) return [...asked, ...steps.filter((step) => step.state === "done")];
  if (waiting >= 0) {
    const due = run.intent === "STOP" && new Date(Date.parse(wishes[0].at) + 1000 * run.request.grace_seconds).toISOString();
    Object.assign(steps[waiting], { state: "now", text: waitOf(run), due });
  }
  return [...asked, ...steps];
}

function waitOf({ tasks }) {
  const jobs = sum(tasks, "DEPLOYING", "PENDING", "RUNNING", "STOPPING");
  return jobs ? `waiting for ${counted(jobs, "job")}` : "under way";
}
