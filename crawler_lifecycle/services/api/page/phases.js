// How far has the latest stop of a run come? Told by its timeline, so that every page tells the same.

import { isOver } from "/words.js";

const ASKED = new Set(["stop", "force stop"]);
const PHASES = [
  ["queue_cleared", "queued_cancelled", "Queue emptied"],
  ["asked_to_end", "jobs_asked", "Jobs asked to end"],
  ["made_to_end", "forced", "Jobs made to end"],
  ["proved", "proved", "Proved"],
];

export function phasesOf({ run, log }) {
  const latest = log.slice(log.findLastIndex((line) => line.event === "reopened") + 1);
  const wishes = latest.filter((line) => ASKED.has(line.event));
  if (!wishes.length) return [];
  const found = new Map(latest.map((line) => [line.event, line]));
  const asked = wishes.map((line, place) => ({
    name: `asked-${place}`, state: "done", at: line.at,
    title: line.event === "stop" ? "Stop asked" : "Force asked",
    text: [line.message, [line.actor, line.door].filter(Boolean).join(", ")].filter(Boolean).join(" \u2014 "),
  }));
  const steps = PHASES.map(([name, event, title]) => {
    const line = found.get(event);
    return { name, title, at: line?.at ?? "", text: line?.message ?? "", state: line ? "done" : "later" };
  }).filter((step) => step.name !== "made_to_end" || step.state === "done" || run.intent === "FORCE");
  const reached = steps.findLastIndex((step) => step.state === "done");
  const waiting = steps.findIndex((step, place) => place > reached && step.state === "later");
  if (waiting >= 0 && isOver(run)) return [...asked, ...steps.filter((step) => step.state === "done")];
  if (waiting >= 0) Object.assign(steps[waiting], { state: "now", text: "under way" });
  return [...asked, ...steps];
}
