// The question before a stop: why, and is it meant? What comes of it is told by the run's own phases.

import { post } from "/api.js";
import { h, setText } from "/dom.js";

export function askToStop(run, force, done) {
  const reason = h("input", { id: "stop-reason", maxlength: 1024, autocomplete: "off" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const send = h("button", { class: force ? "danger" : "primary", type: "submit" }, force ? "Force stop" : "Stop");
  const dialog = h("dialog", { class: "card", "aria-labelledby": "stop-title", onclose: () => dialog.remove() },
    h("form", { onsubmit: submit },
      h("h2", { id: "stop-title" }, `${force ? "Force the stop of" : "Stop"} run ${run.run_id}?`),
      h("p", { class: "quiet" }, force
        ? "Its jobs are ended at once, without asking them. What was collected is still exported."
        : "Its jobs are asked to end, and made to after the grace period. What was collected is still exported."),
      h("label", { for: "stop-reason" }, "Reason"), reason, problem,
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), send)));

  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    try {
      await post(`/v1/runs/${run.run_id}/stop`, { force, reason: reason.value.trim() || null });
      dialog.close();
      done();
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
      send.disabled = false;
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}
