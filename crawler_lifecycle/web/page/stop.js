import { duration, h, inWords, isOver, listen, number, post, setText, stateCounts } from "/kit.js";
import { openDialog, reasonField } from "/dialog.js";

export function askToStop(runs, force, done) {
  const isOne = runs.length === 1;
  const what = isOne ? `run ${runs[0].run_id}` : `${number(runs.length)} runs`;
  const seconds = isOne && runs[0].request.grace_seconds;
  const lines = runs.map((run) => h("li", h("b", isOne ? "" : `${run.run_id} `, run.crawler), ": ", h("span", stateCounts(run.tasks))));
  const reason = reasonField();
  const dialog = openDialog({
    title: force ? `Kill ${what} now?` : `Stop ${what}?`, submit: `${force ? "Kill" : "Stop"} ${what}`, danger: true, first: reason.input,
    content: [h("ul.chosen", lines),
      h("p.quiet", force
        ? "Jobs are killed at once, without time to finish: what they have not saved is lost."
        : `Jobs get ${seconds ? duration(1000 * seconds) : "their grace period"} to finish, then they are killed.`, " What was collected is still exported."),
      reason.element],
    send: async (end) => {
      const refused = [];
      let ended = 0;
      for (const run of runs) {
        try {
          await post(`/v1/runs/${run.run_id}/stop`, { force, reason: reason.value() });
        } catch (error) {
          if (error.status === 409) ended += 1;
          else refused.push(isOne ? error.message : `${run.run_id}: ${error.message}`);
        }
      }
      if (refused.length) throw new Error(refused.join("; "));
      if (ended === runs.length) end(isOne ? "The run has ended meanwhile." : "All of them have ended meanwhile.");
      done();
    },
  });

  // Also where it ended while the question was open.
  listen(({ kind, run }) => {
    const place = kind === "run" ? runs.findIndex((each) => each.run_id === run.run_id) : -1;
    if (place >= 0) setText(lines[place].lastChild, isOver(run) ? inWords(run.reason) : stateCounts(run.tasks));
    if (place >= 0 && isOne && isOver(run)) dialog.end(`The run is over: ${inWords(run.reason)}.`);
  }, dialog.signal);
}
