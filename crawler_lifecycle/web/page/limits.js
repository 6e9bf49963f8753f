import { addressOf, bar, fill, get, h, lasting, link, mayOperate, number, options, pairs, post, put, progress, runLink, scopeInWords, setText, time, when } from "/kit.js";
import { field, openDialog } from "/dialog.js";
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
      Scope: ({ scope }) => scopeLink(scope),
      "Runs|num": (each) => use(each.runs_begun, each.runs),
      "Tasks|num": (each) => use(each.tasks_in_cluster, each.tasks),
      "Weight|num": ({ weight }) => weight && number(weight),
      "Queued|num": (each) => number(each.runs_held),
      Pause: (each) => each.paused_at && [h("b", each.paused_reason),
        h("small", ` \u2014 ${each.paused_by ?? "an unnamed caller"}, since `, time(each.paused_at), " (", lasting(each.paused_at), ")")],
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

// The health of each part, and what is wrong.
const partsInWords = (parts) => [h("h2", "Parts"),
  h("div.chips", parts.map(({ part, ok, line }) => h("span.pill", { dataset: { status: ok ? "COMPLETED" : "FAILED" }, title: line }, part))),
  ...parts.filter(({ ok, because_of: other }) => !ok && !other).map(({ part, line }) => h("p.problem", h("b", part), `: ${line}`))];

// With a bar against the limit.
const use = (used, most) => (most === null ? number(used) : [`${number(used)} of ${number(most)}`,
  bar({ [used < most ? "executing" : "odd"]: Math.min(used, most), "": Math.max(0, most - used) }, ["executing", "odd", ""])]);

// To the runs of the scope.
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
  const amount = (name, label, properties) => field(`limit-${name}`, label, { inputmode: "numeric", pattern: "[0-9]*", placeholder: "no limit", value: limits?.[name] || null, ...properties });
  const scope = makeScope(limits);
  const fields = [
    amount("runs", "Max. concurrent runs"), amount("tasks", "Max. tasks in the cluster, at least 2"),
    ...(!limits || limits.scope.startsWith("label:") ? [amount("weight", "Weight, for a label", { placeholder: "none" })] : []),
  ];
  const values = () => Object.fromEntries(fields
    .map(({ input }) => [input.name, input.value ? Number(input.value) : null])
    .filter(([name, value]) => value !== (limits?.[name] ?? null)));
  openDialog({
    title: limits ? `Limits of ${scopeInWords(limits.scope)}` : "Set a limit", submit: "Save", first: limits ? fields[0].input : scope.first,
    content: [scope.element, h("div.fields", fields.map(({ element }) => element)),
      h("p.quiet", limits ? "An empty field removes its limit. Lowering a limit does not stop running work." : "An empty field sets nothing.")],
    send: async () => done(await put("/v1/limits", { ...scope.value(), ...values() })),
  });
}

function askToPause(limits, done) {
  const scope = makeScope(limits);
  const reason = field("limit-reason", "Reason", { required: true, maxlength: 1024 });
  openDialog({
    title: limits ? `Pause ${scopeInWords(limits.scope)}?` : "Pause a scope", submit: "Pause", first: limits ? reason.input : scope.first,
    content: [scope.element,
      h("p.quiet", "New runs are accepted and wait. Nothing new is deployed. Jobs in the cluster continue."),
      reason.element],
    send: async () => done(await post("/v1/limits/pause", { ...scope.value(), reason: reason.value() })),
  });
}

function makeScope(limits) {
  if (limits) return { element: null, value: () => named(limits.scope) };
  const kind = field("limit-kind", "Scope", { onchange: choose }, "select", options({ label: "a label", crawler: "a crawler", installation: "the installation" }));
  const name = field("limit-name", "", { required: true, maxlength: 128 });
  const unknown = h("input", { type: "checkbox", name: "allow_unknown" });
  const early = h("label.check", unknown, " before its first run");
  function choose() {
    const scope = kind.input.value;
    name.element.hidden = early.hidden = name.input.disabled = scope === "installation";
    name.input.name = scope;
    name.input.placeholder = scope === "label" ? "site:example.com" : "";
    setText(name.element.firstChild, scope === "label" ? "Label" : "Crawler");
  }
  choose();
  const value = () => (name.input.disabled ? {} : { [kind.input.value]: name.value(), ...(unknown.checked ? { allow_unknown: true } : {}) });
  return { element: h("div.fields", kind.element, name.element, early), first: kind.input, value };
}
