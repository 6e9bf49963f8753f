// How flows stand, in words: their states, what they wait for, and why their jobs ended.

import { cause, inWords, number, pill } from "/kit.js";

const WORDS = {
  approval: "waits for a decision", executing: "is running", dependencies: "waits for other jobs", start: "waits for a worker to start it",
  no_supervisor: "waits for a worker: none continues the flow", paused: "the flow is paused", draining: "the flow is being drained",
  settling: "waits until its earlier attempt has ended", retry_pause: "waits for its next attempt", snoozed: "waits for the time that its function chose", time: "waits for its start time",
  unknown_step: "no running host knows its function: start the host again with the present code",
  no_host: "no running host has loaded the manager: start one with crawlctl host", archive: "waits for the archive of its run",
  parallel_limit: "waits for its turn (limit of parallel jobs)", start_refused: "could not be started", main_job_failed: "the main job failed",
  process_died: "its process died too often", approval_timeout: "nobody decided in time", cancel_requested: "was cancelled on request",
  result_too_large: "its result is too large", result_unusable: "its result is not usable", result_mismatch: "its result does not fit",
};
const WITH_NAME = {
  host: (name) => `no running host has taken its step: start one with crawlctl host ${name}`,
  broken_module: (problem) => `${problem}; it starts once the module is repaired`,
  silent_host: (name) => `its host is silent, and no other host of ${name} has taken over`,
  dependency: (name) => `${name} did not complete`, outcome: (name) => `ended with the outcome ${name}`,
  parallel_limit: (name) => `waits for its turn (limit of ${name})`,
};

// A cause or reason of a job: a word, a word with a name (`host:books`), a word with a sentence, or an author's own text.
export function reasonInWords(text) {
  const [, word, sentence, name] = /^([a-z_]+)(?:: (.*)|:(.*))?$/s.exec(text ?? "") ?? [];
  if (!word) return text ?? "";
  if (name && WITH_NAME[word]) return WITH_NAME[word](name);
  if (word === "no_host" && sentence) return sentence;
  return [WORDS[word] ?? cause(word), sentence ?? name].filter(Boolean).join(": ");
}

// A completed flow whose manager has failed items is amber.
export function flowPill(state, failed) {
  return state === "completed" && failed ? pill("odd", `completed, ${number(failed)} failed`) : pill(state);
}

export const waitInWords = (wait) => {
  const [kind, name] = [wait.slice(0, wait.indexOf(":")), wait.slice(wait.indexOf(":") + 1)];
  return kind === "approval" ? `a decision about ${name}` : `a host of ${name}`;
};

export const shownReason = (job) => (job.problem ? `${reasonInWords(job.reason)}: ${job.problem}` : job.reason ? reasonInWords(job.reason) : inWords(job.outcome));
