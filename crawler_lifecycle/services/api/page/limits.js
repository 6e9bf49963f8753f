import { fill, get, h, lasting, mayOperate, number, options, pairs, post, put, runLink, scopeInWords, setText, time, waitsFor, when } from "/kit.js";
import { field, openDialog } from "/dialog.js";
import { commandButton, showTable } from "/table.js";

export function showInstallation({ main, signal }) {
  let limits = new Map(); // by scope
  const done = () => table.load();
  const button = (scope, name, ask) => h("button", () => ask(limits.get(scope) ?? null, done), name);
  const add = [button(null, "Set a limit", askForLimits), button(null, "Pause", askToPause)];
  const [tiles, full] = [h("dl.tiles"), h("ul.events")];
  const table = showTable({
    main, signal, title: "Installation", kind: "boxed.limits", none: "", tools: h("div.actions.right", add),
    about: [tiles, full, h("h2", "Limits"), h("p.quiet", "A run waits until every limit of its scopes has room. A lower limit ends nothing: new runs and tasks wait.")],
    columns: {
      Scope: ({ scope }) => h("b", scopeInWords(scope).replace(/^the /, "")),
      "Runs|num": (each) => use(each.runs_begun, each.runs),
      "Tasks|num": (each) => use(each.tasks_in_cluster, each.tasks),
      "Weight|num": ({ weight }) => weight && number(weight),
      "Runs in line|num": (each) => number(each.runs_held),
      Pause: (each) => each.paused_at && [h("b", each.paused_reason),
        h("small", ` \u2014 ${each.paused_by ?? "an unnamed caller"}, since `, time(each.paused_at), " (", lasting(each.paused_at), ")")],
      "|act": ({ scope, paused_at: paused }) => mayOperate() && h("div.actions", button(scope, "Change", askForLimits), paused
        ? commandButton("Resume", async () => { await post("/v1/limits/resume", named(scope)); return `Resumed: ${scopeInWords(scope)}.`; }, done)
        : button(scope, "Pause", askToPause)),
    },
    read: async () => {
      const [{ limits: found }, whole] = await Promise.all([get("/v1/limits", signal), get("/v1/installation", signal)]);
      fill(tiles, capacity(whole));
      fill(full, whole.saturated.map((run) => h("li", runLink(run.run_id),
        ` ${run.crawler} waits for ${waitsFor(run)}, since `, when(run.waiting_since))));
      limits = new Map(found.map((each) => [each.scope, each]));
      for (const each of add) each.hidden = !mayOperate();
      return { items: found.map((each) => ({ key: each.scope, ...each })) };
    },
  });
}

const capacity = ({ limits: own, ...whole }) => pairs({
  "Open runs": number(whole.open_runs), Begun: use(own.runs_begun, own.runs), "Tasks in the cluster": use(own.tasks_in_cluster, own.tasks),
  "Runs in line": number(whole.runs_in_line), "Runs without room for 5 min": number(whole.saturated_runs),
});

const use = (used, most) => (most === null ? number(used) : `${number(used)} of ${number(most)}`);

function named(scope) {
  const [, kind, name] = /^(crawler|label):([^]*)$/.exec(scope) ?? [];
  return kind ? { [kind]: name } : {};
}

function askForLimits(limits, done) {
  const amount = (name, label, properties) => field(`limit-${name}`, label, { inputmode: "numeric", pattern: "[0-9]*", placeholder: "no limit", value: limits?.[name] || null, ...properties });
  const scope = makeScope(limits);
  const fields = [
    amount("runs", "Most runs that have begun"), amount("tasks", "Most tasks in the cluster, at least 2"),
    ...(!limits || limits.scope.startsWith("label:") ? [amount("weight", "Weight, for a label", { placeholder: "none" })] : []),
  ];
  const values = () => Object.fromEntries(fields
    .map(({ input }) => [input.name, input.value ? Number(input.value) : null])
    .filter(([name, value]) => value !== (limits?.[name] ?? null)));
  openDialog({
    title: limits ? `Limits of ${scopeInWords(limits.scope)}` : "Set a limit", submit: "Save", first: limits ? fields[0].input : scope.first,
    content: [scope.element, h("div.fields", fields.map(({ element }) => element)),
      h("p.quiet", limits ? "An empty field takes its limit away." : "An empty field sets nothing.")],
    send: async () => done(await put("/v1/limits", { ...scope.value(), ...values() })),
  });
}

function askToPause(limits, done) {
  const scope = makeScope(limits);
  const reason = field("limit-reason", "Reason", { required: true, maxlength: 1024 });
  openDialog({
    title: limits ? `Pause ${scopeInWords(limits.scope)}?` : "Pause a scope", submit: "Pause", first: limits ? reason.input : scope.first,
    content: [scope.element,
      h("p.quiet", "New runs are accepted and wait. Nothing new is deployed. Jobs in the cluster go on."),
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
