// Limits and pauses of the installation, of crawlers and of labels: a table, and for who may, a form for each.

import { get, isOpen, post, put } from "/api.js";
import { h, patch, setText, skeleton, toast } from "/dom.js";
import { listen } from "/live.js";
import { lasting, number, scopeInWords, time } from "/words.js";

const AGAIN = 5000; // no event tells of a change of limits
const COLUMNS = ["Scope", "Runs", "Tasks", "Places kept", "Weight", "Runs in line", "Pause", ""];

export function showLimits(main, signal) {
  let limits = new Map(); // by scope
  let asked = 0;
  let answered = 0; // the latest of those asked for
  let timer = null;
  const body = h("tbody");
  const table = h("table", { class: "list limits", hidden: true },
    h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" }, name)))), body);
  const waiting = skeleton();
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const add = h("button", { type: "button", hidden: true, onclick: () => askForLimits(null, show) }, "Set a limit");
  const stop = h("button", { type: "button", hidden: true, onclick: () => askToPause(null, show) }, "Pause");
  main.append(
    h("div", { class: "tools" }, h("h1", {}, "Limits"), h("div", { class: "actions right" }, add, stop)),
    h("p", { class: "quiet" }, "A run waits for its permit until every limit of its scopes has room. ",
      "A lower limit ends nothing: new runs and tasks wait."),
    waiting, problem, table);

  async function load() {
    clearTimeout(timer);
    const mine = ++asked;
    let pause = AGAIN;
    try {
      const latest = (await get("/v1/limits", signal)).limits;
      if (mine < answered) return;
      answered = mine;
      show(latest);
    } catch (error) {
      if (signal.aborted) return;
      waiting.hidden = Boolean(answered) || !isOpen(error);
      tell(error.message);
      if (!isOpen(error)) return;
      pause = Math.max(AGAIN, (error.pause ?? 0) * 1000);
    }
    if (mine === asked && !signal.aborted) timer = setTimeout(load, pause);
  }

  function tell(text) {
    problem.hidden = !text;
    setText(problem, text);
  }

  function show(latest) {
    limits = new Map(latest.map((each) => [each.scope, each]));
    tell("");
    waiting.hidden = true;
    table.hidden = false;
    const may = mayOperate();
    add.hidden = stop.hidden = !may;
    patch(body, latest, (each) => each.scope, (each) => makeRow(each.scope), (row, each) => updateRow(row, each, may));
  }

  const makeRow = (scope) => h("tr", {},
    h("td", { class: "name" }), COLUMNS.slice(1, 6).map((label) => h("td", { class: "num", dataset: { label } })),
    h("td", { class: "why" }),
    h("td", { class: "act" },
      h("button", { type: "button", onclick: () => askForLimits(limits.get(scope), show) }, "Change"),
      h("button", { type: "button", onclick: () => askToPause(limits.get(scope), show) }, "Pause"),
      h("button", { type: "button", onclick: (event) => resume(event.target, limits.get(scope), show) }, "Resume")));

  listen(({ kind }) => kind === "ready" && load(), signal);
  document.addEventListener("scopes-known", () => answered && show([...limits.values()]), { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  load();
}

const mayOperate = () => Boolean(document.body.dataset.scopes?.includes("operate"));

function updateRow(row, limits, may) {
  const [name, runs, tasks, kept, weight, line, pause, act] = row.children;
  const [change, halt, resumeButton] = act.children;
  setText(name, scopeInWords(limits.scope).replace(/^the /, ""));
  setText(runs, use(limits.runs_begun, limits.runs));
  setText(tasks, use(limits.tasks_in_cluster, limits.tasks));
  setText(kept, number(limits.places_kept));
  setText(weight, limits.weight === null ? "\u2013" : number(limits.weight));
  setText(line, number(limits.runs_held));
  const told = `${limits.paused_at}${limits.paused_by}${limits.paused_reason}`;
  if (pause.dataset.told !== told) {
    pause.dataset.told = told;
    pause.replaceChildren(...(limits.paused_at
      ? [h("b", {}, limits.paused_reason), h("small", {}, ` \u2014 ${limits.paused_by ?? "an unnamed caller"}, since `, time(limits.paused_at), " (", lasting(limits.paused_at), ")")]
      : []));
  }
  change.hidden = halt.hidden = !may;
  halt.hidden ||= Boolean(limits.paused_at);
  resumeButton.hidden = !may || !limits.paused_at;
}

const use = (used, most) => (most === null ? number(used) : `${number(used)} of ${number(most)}`);

// The scope as the API names it: nothing is the installation.
function named(scope) {
  const [, kind, name] = /^(crawler|label):([^]*)$/.exec(scope) ?? [];
  return kind ? { [kind]: name } : {};
}

async function resume(button, limits, done) {
  button.disabled = true;
  try {
    done((await post("/v1/limits/resume", named(limits.scope))).limits);
    toast(`Resumed: ${scopeInWords(limits.scope)}.`);
  } catch (error) {
    toast(error.message);
  }
  button.disabled = false;
}

function askForLimits(limits, done) {
  const field = (name, label, properties = {}) => {
    const input = h("input", {
      id: `limit-${name}`, name, autocomplete: "off", inputmode: "numeric", pattern: "[0-9]*", placeholder: "no limit", ...properties,
    });
    if (limits?.[name]) input.value = limits[name];
    return { name, input, element: h("div", { class: "field" }, h("label", { for: `limit-${name}` }, label), input) };
  };
  const scope = makeScope(limits);
  const fields = [
    field("runs", "Most runs that have begun"), field("tasks", "Most tasks in the cluster, at least 2"),
    ...(!limits || limits.scope.startsWith("label:") ? [field("weight", "Weight, for a label", { placeholder: "none" })] : []),
  ];
  const values = () => Object.fromEntries(fields
    .map(({ name, input }) => [name, input.value ? Number(input.value) : null])
    .filter(([name, value]) => value !== (limits?.[name] ?? null)));
  openDialog({
    title: limits ? `Limits of ${scopeInWords(limits.scope)}` : "Set a limit", submit: "Save", first: limits ? fields[0].input : scope.first,
    content: [scope.element, h("div", { class: "fields" }, fields.map(({ element }) => element)),
      h("p", { class: "quiet" }, limits ? "An empty field takes its limit away." : "An empty field sets nothing.")],
    send: async () => done((await put("/v1/limits", { ...scope.value(), ...values() })).limits),
  });
}

function askToPause(limits, done) {
  const scope = makeScope(limits);
  const reason = h("input", { id: "limit-reason", name: "reason", required: true, maxlength: 1024, autocomplete: "off" });
  openDialog({
    title: limits ? `Pause ${scopeInWords(limits.scope)}?` : "Pause a scope", submit: "Pause", first: limits ? reason : scope.first,
    content: [scope.element,
      h("p", { class: "quiet" }, "New runs are accepted and wait. Nothing new is deployed. Jobs in the cluster go on."),
      h("label", { for: "limit-reason" }, "Reason"), reason],
    send: async () => done((await post("/v1/limits/pause", { ...scope.value(), reason: reason.value.trim() })).limits),
  });
}

// Which scope is meant: that of the row, or a choice.
function makeScope(limits) {
  if (limits) return { element: null, value: () => named(limits.scope) };
  const kind = h("select", { id: "limit-kind", name: "kind", onchange: choose },
    [["label", "a label"], ["crawler", "a crawler"], ["installation", "the installation"]]
      .map(([value, text]) => h("option", { value }, text)));
  const name = h("input", { id: "limit-name", name: "label", required: true, maxlength: 128, autocomplete: "off" });
  const label = h("label", { for: "limit-name" });
  const element = h("div", { class: "field" }, h("label", { for: "limit-kind" }, "Scope"), kind);
  const nameField = h("div", { class: "field" }, label, name);
  function choose() {
    nameField.hidden = kind.value === "installation";
    name.disabled = nameField.hidden;
    name.name = kind.value;
    name.placeholder = kind.value === "label" ? "site:example.com" : "";
    setText(label, kind.value === "label" ? "Label" : "Crawler");
  }
  choose();
  return {
    element: h("div", { class: "fields" }, element, nameField), first: kind,
    value: () => (kind.value === "installation" ? {} : { [kind.value]: name.value.trim() }),
  };
}

function openDialog({ title, submit, first, content, send }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { class: "primary", type: "submit" }, submit);
  const dialog = h("dialog", { class: "card", "aria-labelledby": "limit-title", onclose: () => dialog.remove() },
    h("form", { onsubmit: go }, h("h2", { id: "limit-title" }, title), content, problem,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), button)));

  async function go(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      await send();
      dialog.close();
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
      button.disabled = false;
      dialog.querySelector("form").elements.namedItem(error.field ?? "")?.focus();
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  first.focus();
}
