import { addressOf, bar, counted, fill, get, h, lasting, link, mayOperate, number, pairs, post, put, progress, runLink, scopeInWords, time, when } from "/kit.js";
import { field, openDialog, suggestions } from "/dialog.js";
import { commandButton, showTable } from "/table.js";

export function showInstallation({ main, signal }) {
  let limits = new Map(); // by scope
  const done = () => table.load();
  const button = (scope, name, ask) => h("button", () => ask(limits.get(scope) ?? null, done), name);
  const add = [button(null, "Set a limit", askForLimits), button(null, "Pause", askToPause)];
  const [tiles, full, health] = [h("dl.tiles"), h("ul.events"), h("div.health")];
  let asking = null;
  const learnParts = () => { // a part that hangs does not hold up the rest
    asking ??= get("/v1/parts", signal).then(({ parts }) => fill(health, partsInWords(parts)), () => {}).finally(() => { asking = null; });
  };
  const table = showTable({
    main, signal, title: "Installation", kind: "boxed.limits", none: "", tools: h("div.actions.right", add),
    about: [tiles, full, health, h("h2", "Limits"), h("p.quiet", "A run is queued until every limit of its scopes has room. Lowering a limit does not stop running work.")],
    columns: {
      "Scope|name": ({ scope }) => scopeLink(scope),
      "Runs|num": (each) => use(each.runs_begun, each.runs),
      "Tasks|num": (each) => use(each.tasks_in_cluster, each.tasks),
      "Weight|num": ({ weight }) => weight && number(weight),
      "Queued|num": (each) => number(each.runs_held),
      Pause: (each) => each.paused_at && [h("b", each.paused_reason),
        h("small", ` — ${each.paused_by ?? "an unnamed caller"}, since `, time(each.paused_at), " (", lasting(each.paused_at), ")")],
      "|act": ({ scope, paused_at: paused }) => mayOperate() && h("div.actions", button(scope, "Change", askForLimits), paused
        ? commandButton("Resume", async () => { await post("/v1/limits/resume", named(scope)); return `Resumed: ${scopeInWords(scope)}.`; }, done)
        : button(scope, "Pause", askToPause)),
    },
    read: async () => {
      learnParts();
      const [{ limits: found }, whole] = await Promise.all([get("/v1/limits", signal), get("/v1/installation", signal)]);
      fill(tiles, capacity(whole));
      fill(full, whole.saturated.map((run) => h("li", runLink(run.run_id),
        ` ${run.crawler}: ${progress(run)}, since `, when(run.waiting_since))));
      limits = new Map(found.map((each) => [each.scope, each]));
      for (const each of add) each.hidden = !mayOperate();
      return { items: found.map((each) => ({ key: each.scope, ...each })) };
    },
  });
}

const capacity = ({ limits: own, places, ...whole }) => pairs({
  "Open runs": number(whole.open_runs), Running: use(own.runs_begun, own.runs), Queued: number(whole.runs_in_line),
  "Tasks in the cluster": use(own.tasks_in_cluster, own.tasks),
  ...(places && { "Places in the cluster": [use(places.taken, places.total), places.waiting > 0 && h("small", `${number(places.waiting)} waiting`)].flat() }),
  "Stuck for over 5 min": whole.saturated_runs ? h("b.bad", number(whole.saturated_runs)) : number(0),
});

const partsInWords = (parts) => [h("h2", "Parts"),
  h("div.chips", parts.map(({ part, ok, line }) => h("span.pill", { dataset: { status: ok ? "COMPLETED" : "FAILED" }, title: line }, part))),
  ...parts.filter(({ ok, because_of: other }) => !ok && !other).map(({ part, line }) => h("p.problem", h("b", part), `: ${line}`))];

const use = (used, most) => (most === null ? number(used) : [`${number(used)} of ${number(most)}`,
  bar({ [used < most ? "executing" : "odd"]: Math.min(used, most), "": Math.max(0, most - used) }, ["executing", "odd", ""])]);

function scopeLink(scope) {
  const { crawler, label } = named(scope);
  const text = h("b", scopeInWords(scope).replace(/^the /, ""));
  return crawler || label ? link(addressOf("#/", { crawler, label, flows: "true" }), text) : text;
}

function named(scope) {
  const [, kind, name] = /^(crawler|label):([^]*)$/.exec(scope) ?? [];
  return kind ? { [kind]: name } : {};
}

function askForLimits(limits, done) {
  const amount = (name, label) => field(`limit-${name}`, label, { inputmode: "numeric", pattern: "[0-9]*", value: limits?.[name] || null });
  const fields = [amount("runs", "Max. concurrent runs"), amount("tasks", "Max. tasks in the cluster"), amount("weight", "Weight beside other labels")];
  const values = () => Object.fromEntries(fields.map(({ input }) => [input.name, input.value ? Number(input.value) : null])
    .filter(([name, value]) => value !== (limits?.[name] ?? null)));
  const effect = (most, used, noun) => `${counted(used, noun)} now${
    most > used ? `, room for ${number(most - used)} more` : most ? `. Nothing is stopped: ${number(used - most + 1)} must end before the next starts` : ", no limit"}.`;
  askAbout(limits, done, {
    title: limits ? `Limits of ${scopeInWords(limits.scope)}` : "Set a limit", submit: "Save", fields,
    send: (scope) => put("/v1/limits", { ...scope, ...values() }),
    tell: (use) => {
      fields[2].element.hidden = !use.scope.startsWith("label:");
      const [runs, tasks] = fields.map(({ input }) => {
        input.placeholder = (!limits && use[input.name]) || "none";
        return Number(input.value || input.placeholder) || 0;
      });
      return [effect(runs, use.runs_begun, "run"), effect(tasks, use.tasks_in_cluster + use.places_kept, "task")];
    },
  });
}

function askToPause(limits, done) {
  const reason = field("limit-reason", "Reason, shown with each run that waits", { required: true, maxlength: 1024 });
  askAbout(limits, done, {
    title: limits ? `Pause ${scopeInWords(limits.scope)}?` : "Pause a scope", submit: "Pause", fields: [reason],
    send: (scope) => post("/v1/limits/pause", { ...scope, reason: reason.value() }),
    tell: (use) => [use.runs_begun ? `${counted(use.runs_begun, "run")} now, with ${counted(use.tasks_in_cluster, "task")} in the cluster. They continue; nothing more is deployed.`
      : "No run of it has begun.", "New runs are accepted, and wait until somebody resumes it."],
  });
}

// About a scope that is known, or chosen in the dialog. `tell(use)`: what the change does, beside the scope's present use.
function askAbout(limits, done, { title, submit, fields, send, tell }) {
  let use = limits;
  const scope = field("limit-scope", "Scope", {
    required: true, maxlength: 140, pattern: "installation|(crawler|label):.+", title: "installation, crawler:NAME or label:NAME", placeholder: "label:site:example.com", list: "scopes", onchange: learn,
  });
  const unknown = h("input", { type: "checkbox", name: "allow_unknown" });
  const early = h("label.check", { hidden: true }, unknown, "Accept the name before its first run");
  const told = h("div.quiet", { role: "status" });
  openDialog({
    title, submit, first: (limits ? fields[0] : scope).input,
    content: [limits ? [] : [scope.element, early, suggestions("scopes", "/v1/crawler-entries", ({ crawlers }) => ["installation",
      ...new Set(crawlers.flatMap(({ name, labels }) => [`crawler:${name}`, ...labels.map((each) => `label:${each}`)]))])], h("div.fields", { oninput: draw }, fields.map(({ element }) => element)), told],
    send: async () => {
      try {
        done(await send({ ...named(limits?.scope ?? scope.value()), ...(unknown.checked && { allow_unknown: true }) }));
      } catch (error) {
        const [message, hint] = error.message.split(/;? \(?`allow_/);
        early.hidden &&= !hint;
        throw Object.assign(error, { message, ...((hint || /^(crawler|label)$/.test(error.field)) && { field: "scope" }) });
      }
    },
  });

  function draw() {
    if (use) fill(told, [...tell(use), use.runs_held > 0 && `${counted(use.runs_held, "run")} queued for it.`].filter(Boolean).map((line) => h("p", line)));
  }

  async function learn() {
    const text = scope.value();
    const { limits: found } = await get(addressOf("/v1/limits", named(text))).catch(() => ({ limits: [] })); // saving says what is wrong
    if (text !== scope.value()) return;
    use = found.find((each) => each.scope === text);
    told.hidden = !use;
    draw();
  }

  draw();
}
