// How flows stand, in words: their states, what they wait for, and why their jobs ended.

import { cause, inWords, number, pill } from "/kit.js";
import { SENTENCES, SENTENCES_WITH_NAME } from "/sentences.js";

// A cause or reason of a job: a word, a word with a name (`host:books`), a word with a sentence, or an author's own text.
export function reasonInWords(text) {
  const [, word, sentence, name] = /^([a-z_]+)(?:: (.*)|:(.*))?$/s.exec(text ?? "") ?? [];
  if (!word) return text ?? "";
  if (name && SENTENCES_WITH_NAME[word]) return SENTENCES_WITH_NAME[word].replaceAll("{name}", () => name);
  if (word === "no_host" && sentence) return sentence;
  return [SENTENCES[word] ?? cause(word), sentence ?? name].filter(Boolean).join(": ");
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
