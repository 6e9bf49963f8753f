// The question before a stop: why, and is it meant? What comes of it is told by the run's own phases.

import { post } from "/api.js";
import { h, setText } from "/dom.js";
import { listen } from "/live.js";
import { counts, inWords, isOver, number } from "/words.js";

export function askToStop(run, force, done) {
  const seconds = run.request.grace_seconds;
  const grace = seconds ? `after a grace period of ${number(seconds)} s` : "after the grace period";
  const tasks = h("span", {}, counts(run.tasks));
  const reason = h("input", { id: "stop-reason", maxlength: 1024, autocomplete: "off" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const leave = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const closed = new AbortController();
  const send = h("button", { class: force ? "danger" : "primary", type: "submit" }, force ? "Force stop" : "Stop");
  const dialog = h("dialog", { class: "card", "aria-labelledby": "stop-title", onclose: () => { closed.abort(); dialog.remove(); } },
    h("form", { onsubmit: submit },
      h("h2", { id: "stop-title" }, `${force ? "Force the stop of" : "Stop"} run ${run.run_id}?`),
      h("p", {}, h("b", {}, run.crawler), ": ", tasks),
      h("p", { class: "quiet" }, force
        ? "The jobs are told to end and made to at once, without the grace period: what they have not saved is lost. What was collected is still exported."
        : `The jobs are asked to end, and made to ${grace}. What was collected is still exported.`),
      h("label", { for: "stop-reason" }, "Reason"), reason, problem,
      h("div", { class: "actions" },
        leave, send)));

  // Also where it ended while the question was open: there is nothing to stop any more.
  function tellOver(text) {
    closed.abort();
    send.hidden = true;
    setText(leave, "Close");
    problem.hidden = false;
    setText(problem, text);
    leave.focus();
  }

  listen(({ kind, run: latest }) => {
    if (kind !== "run" || latest.run_id !== run.run_id) return;
    setText(tasks, counts(latest.tasks));
    if (isOver(latest)) tellOver(`The run is over: ${inWords(latest.reason)}.`);
  }, closed.signal);

  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    try {
      await post(`/v1/runs/${run.run_id}/stop`, { force, reason: reason.value.trim() || null });
      dialog.close();
      done();
    } catch (error) {
      if (error.status === 409) {
        done();
        return tellOver("The run has ended meanwhile.");
      }
      problem.hidden = false;
      setText(problem, error.message);
      send.disabled = false;
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}
