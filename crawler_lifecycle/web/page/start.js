import { alertLine, capital, get, h, inWords, isOpen, isOver, lasting, listen, named, pairsOf, pauseAfter, post, say, setText, toast, progress } from "/kit.js";
import { field, suggestions } from "/dialog.js";

const KEPT = "starting"; // survives a reload: {key, request, run?}
const BESIDE = ["allowed_failures", "grace_seconds", "retries", "memory_factor", "tags", "report"]; // not in the form
const AT_FAULT = [400, 409, 413, 422]; // the request itself, whoever asks. Else an earlier try of it may have made the run

// A page that came without TLS from another machine has no crypto.randomUUID.
const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// `like`: what a request begins with, as that of another run.
export const openStart = (like = null) => open(null, like);

export function goOnStarting() {
  const kept = sessionStorage.getItem(KEPT);
  if (kept && !document.querySelector("dialog.start")) open(JSON.parse(kept));
}

function open(starting, like = null) {
  if (document.querySelector("dialog.start")) return;
  const closed = new AbortController();
  let told = ""; // as of when
  const filled = {};
  const own = "default";
  const control = (name, ...rest) => field(`start-${name}`, ...rest);
  const whole = (name, label, placeholder = own) => control(name, label, { inputmode: "numeric", pattern: "[0-9]*", placeholder });
  const area = (name, label, placeholder) => control(name, label, { rows: 3, spellcheck: "false", placeholder }, "textarea");
  const crawler = control("crawler", "Crawler", { list: "crawlers", required: true, maxlength: 128 });
  const tasks = whole("tasks", "Tasks");
  const parallel = whole("max_parallel", "Parallel tasks");
  const longest = whole("max_duration_seconds", "Time limit, seconds");
  const limit = whole("start_limit_seconds", "Start timeout, seconds");
  const args = area("arguments", "Arguments, one name=value a line", "site=https://books.example");
  const settings = area("settings", "Settings of the crawl framework, one name=value a line", "DOWNLOAD_DELAY=2");
  const labels = control("labels", "Labels, with blanks between", { placeholder: "site:books.example" });
  const priority = control("priority", "Priority, -100 to 100", { pattern: "-?[0-9]*", placeholder: own });
  const numbers = [tasks, parallel, longest, limit, priority];
  const showDefaults = async () => {
    const entry = await get(`/v1/crawlers/${encodeURIComponent(crawler.input.value.trim())}`, closed.signal).catch(() => ({})); // an unknown name
    for (const { input } of numbers) input.placeholder = entry[input.name === "tasks" ? "processes" : input.name] ?? own;
  };
  crawler.input.onchange = showDefaults;
  const problem = alertLine();
  const send = h("button.primary", { type: "submit" }, "Start");
  const form = h("form", { onsubmit: submit },
    h("h2", { id: "start-title" }, "Start a run"),
    crawler.element, suggestions("crawlers", "/v1/crawlers", ({ crawlers }) => crawlers),
    args.element, settings.element,
    h("div.fields", [...numbers, labels].map(({ element }) => element)),
    problem,
    h("div.actions", h("button", () => dialog.close(), "Cancel"), send));
  const what = h("h2", { id: "starting-title" });
  const waits = h("p.waits", { "aria-live": "polite" });
  const since = h("p.quiet.num");
  const never = alertLine();
  const toRun = h("a.button", { href: "#/", hidden: true, onclick: () => dialog.close() }, "Go to the run");
  const leave = h("button", () => dialog.close(), "Close");
  const waiting = h("div", { hidden: true },
    what, h("div.progress"), waits, since, never, h("div.actions", leave, toRun));
  const dialog = h("dialog.card.start", {
    "aria-label": "Start a run",
    onclose: () => { closed.abort(); sessionStorage.removeItem(KEPT); dialog.remove(); },
  }, form, waiting);

  function submit(event) {
    event.preventDefault();
    try {
      const asked = request();
      if (JSON.stringify(asked) !== JSON.stringify(starting?.request)) starting = { key: newKey(), request: asked };
    } catch (error) {
      return refuse(error);
    }
    keep();
    wait();
  }

  // What another run's request said, and no default filled in.
  const given = (name) => (like?.left_open?.includes(name) ? undefined : like?.[name]);

  function request() {
    const wanted = { ...Object.fromEntries(BESIDE.map((name) => [name, given(name)])), crawler: crawler.input.value.trim(), trigger: "manual" };
    for (const { input } of [args, settings]) wanted[input.name] = input.value === filled[input.name] ? like[input.name] : pairsOf(input);
    if (labels.input.value.trim()) wanted.labels = labels.input.value.trim().split(/\s+/);
    for (const { input } of numbers) if (input.value) wanted[input.name] = Number(input.value);
    return wanted;
  }

  function refuse({ message, field }) {
    waiting.hidden = true;
    form.hidden = false;
    say(problem, message);
    (form.elements.namedItem(field?.split(".")[0] ?? "") ?? crawler.input).focus();
  }

  // Until there is another token: what was asked for may have been made.
  function setAside() {
    closed.abort();
    dialog.remove();
    document.getElementById("token")?.focus();
  }

  const keep = () => sessionStorage.setItem(KEPT, JSON.stringify(starting));

  async function wait() {
    form.hidden = true;
    waiting.hidden = false;
    setText(what, `Starting ${starting.request.crawler}`);
    setText(waits, "Waiting for the run to be recorded");
    since.replaceChildren(lasting(new Date().toISOString()));
    leave.focus();
    while (!starting.run && !closed.signal.aborted) {
      try {
        const made = await post("/v1/runs", starting.request, { "Idempotency-Key": starting.key });
        starting.run = made.run_id;
        if (!closed.signal.aborted) keep();
      } catch (error) {
        if (error.status === 401) return setAside();
        if (!isOpen(error)) {
          if (AT_FAULT.includes(error.status)) {
            starting = null;
            sessionStorage.removeItem(KEPT);
          }
          return refuse(error);
        }
        setText(waits, `Waits: ${error.message}. Asking again ...`);
        await new Promise((resume) => setTimeout(resume, pauseAfter(error)));
      }
    }
    if (!closed.signal.aborted) watch();
  }

  function watch() {
    setText(what, `Run ${starting.run}: ${starting.request.crawler}`);
    toRun.href = `#/runs/${starting.run}`;
    toRun.hidden = false;
    const look = async () => {
      try {
        const { run, notices } = await get(`/v1/runs/${starting.run}`, closed.signal);
        if (!notices.some(announce)) tell(run);
      } catch (error) {
        if (closed.signal.aborted) return;
        if (error.status === 401) setAside();
        if (error.status === 404) tellNever(error.message);
      }
    };
    listen(({ kind, run, notice }) => {
      if (kind === "notice" && notice.run_id === starting.run) announce(notice);
      if (kind === "run" && run.run_id === starting.run) tell(run);
      if (kind === "ready") look();
    }, closed.signal);
    look();
  }

  // The start is what its notice says; whether that closes the dialog.
  function announce({ kind, run_id: run }) {
    if (kind !== "started" || closed.signal.aborted) return false;
    dialog.close();
    toast(`Run ${run} has started.`);
    location.hash = `#/runs/${run}`;
    return true;
  }

  function tell(run) {
    if (closed.signal.aborted || run.changed_at < told) return; // an answer that an event has overtaken
    told = run.changed_at;
    if (isOver(run)) {
      tellNever(`${run.started_at ? "It is over" : "It never started"}: ${inWords(run.reason)}.`);
    } else if (run.intent !== "RUN") {
      tellNever(`${run.started_at ? "It" : "It will not start: it"} is being stopped.`);
    } else if (run.started_at) {
      setText(waits, "Running. Waiting for the notice of its start");
      since.replaceChildren("for ", lasting(run.started_at));
    } else {
      setText(waits, capital(progress(run)));
      since.replaceChildren("for ", lasting(run.waiting_since ?? run.created_at));
    }
  }

  function tellNever(text) {
    sessionStorage.removeItem(KEPT);
    waiting.querySelector(".progress").hidden = true;
    waits.hidden = since.hidden = true;
    say(never, text);
    (toRun.hidden ? leave : toRun).focus();
  }

  if (like) {
    crawler.input.value = like.crawler;
    for (const { input } of like.arguments ? [args, settings] : []) {
      input.value = named(like[input.name]).join("\n");
      filled[input.name] = input.value; // sent as it was, also if a value has several lines
    }
    labels.input.value = like.labels?.join(" ") ?? "";
    for (const { input } of numbers) input.value = given(input.name) ?? "";
  }
  document.body.append(dialog);
  dialog.showModal();
  if (like) showDefaults();
  if (starting) wait();
  else crawler.input.focus();
}
