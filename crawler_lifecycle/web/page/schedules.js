// Schedules: how their last starts ended, what comes next; made, changed and deleted here.

import { attempt, call, crawlerLink, duration, get, h, mayOperate, named, options, pairsOf, pill, post, put, toast, when } from "/kit.js";
import { field, openDialog, question, suggestions } from "/dialog.js";
import { commandButton, showTable } from "/table.js";
import { due, health } from "/tables.js";

const MOST = 30; // schedules whose starts are shown
const NOT_GIVEN = ["run_id", "flow", "reopen", "left_open", "trigger", "requested_by"]; // in a run's request
const OVERLAPS = { skip: "skip the start", queue: "wait for its end", replace: "stop it, then start", allow: "run both" };
const OF_FLOWS = { completed: "COMPLETED", discarded: "FAILED", cancelled: "STOPPED" };
const OVER = ["COMPLETED", "FAILED", "STOPPED", "SKIPPED", "UNKNOWN"];
const addressOf = (key) => `/v1/schedules/${encodeURIComponent(key)}`;

export function showSchedules({ main, signal }) {
  const known = new Map(); // schedule: {at, ends}; read again after a start, and until its runs are over
  const done = () => table.load();
  const button = ({ key }, verb, name) => commandButton(name, async () => {
    await post(`${addressOf(key)}/${verb}`);
    return `${name}: ${key}.`;
  }, done);
  const make = h("button.primary", { hidden: true, onclick: () => edit(null, done) }, "Make a schedule …");
  const table = showTable({
    main, signal, title: "Schedules", none: "No schedules yet.", tools: h("div.actions.right", make),
    columns: {
      Schedule: ({ key }) => h("b", key), Starts: (each) => (each.crawler ? crawlerLink(each.crawler) : each.flow_id),
      When: (each) => [...each.cron, each.every_seconds && `every ${duration(each.every_seconds * 1000)}`, each.cron.length > 0 && each.time_zone].filter(Boolean).join(", "),
      "Last starts|dots": ({ key }) => health(known.get(key)?.ends ?? []),
      Next: (each) => (each.paused ? pill("paused") : each.next_at.slice(0, 3).flatMap((at, place) => [place > 0 && ", ", due(at)])), Last: (each) => when(each.last_started_at),
      "|act": (each) => mayOperate() && h("div.actions", h("button", () => startOnce(each, done), "Start now …"),
        each.paused ? button(each, "resume", "Resume") : button(each, "pause", "Pause"),
        h("button", ({ target }) => attempt(target, async () => edit(await get(`${addressOf(each.key)}?occurrences=0`), done)), "Change …")),
    },
    read: async () => {
      const { schedules } = await get("/v1/schedules", signal);
      make.hidden = !mayOperate();
      await Promise.all(schedules.slice(0, MOST).map((each) => learn(each).catch(() => {}))); // the list is worth more than its dots
      return { items: schedules.map((each) => ({ key: each.schedule_id, ...each })) };
    },
  });

  async function learn({ schedule_id: key, last_started_at: at }) {
    const last = known.get(key);
    if (last && last.at === at && !last.isOpen) return;
    const { occurrences, other_starts: others } = await get(addressOf(key), signal);
    const starts = [...occurrences, ...others].sort((one, other) => (one.at < other.at ? 1 : -1)).slice(0, 10)
      .map((each) => ({ run_id: each.run_id, name: each.flow_id ?? each.at, status: each.run_status ?? OF_FLOWS[each.flow_state] ?? each.outcome.toUpperCase(), outcome: each.reason }));
    known.set(key, { at, ends: starts, isOpen: starts.some(({ status }) => !OVER.includes(status)) });
  }
}

const startOnce = ({ key }, started) => question(`Start ${key} now?`, "Start now", "One start outside of its times. The times stay as they are.",
  async () => { await post(`${addressOf(key)}/trigger`); toast(`Started: ${key}.`); started(); }, false);

const askToDelete = (key, done) => question(`Delete ${key}?`, "Delete", "It starts nothing more. Runs under way continue, and earlier runs stay recorded.",
  async () => { await call("DELETE", addressOf(key)); toast(`Deleted: ${key}.`); done(); });

// Asks for the rules of a new schedule, or of this one: what is not asked for stays.
function edit(old, done) {
  const name = field("schedule-name", "Name", { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 100, placeholder: "nightly" });
  const crawler = field("schedule-crawler", "Crawler", { list: "crawlers", required: true, maxlength: 128, value: old?.run?.crawler, disabled: Boolean(old) }); // a schedule keeps its crawler
  const args = field("schedule-arguments", "Arguments, one name=value a line", { rows: 2, spellcheck: "false" }, "textarea", named(old?.run?.arguments ?? {}).join("\n"));
  const cron = field("schedule-cron", "Cron lines: minute, hour, day of the month, month, day of the week", { rows: 2, placeholder: "0 3 * * *", spellcheck: "false" }, "textarea", old?.cron.join("\n") ?? "");
  const every = field("schedule-every_seconds", "Or a period, seconds", { inputmode: "numeric", pattern: "[0-9]*", value: old?.every_seconds });
  const zone = field("schedule-time_zone", "Time zone", { placeholder: "UTC", maxlength: 100, value: old?.cron.length ? old.time_zone : null });
  const overlap = field("schedule-overlap", "While an earlier run is open", {}, "select", options(OVERLAPS, old?.overlap));
  const ofRun = old && !old.run ? [] : [crawler.element, suggestions("crawlers", "/v1/crawlers", ({ crawlers }) => crawlers), args.element];
  const rules = () => ({
    ...(old && { jitter_seconds: old.jitter_seconds, offset_seconds: old.offset_seconds, missed_window_seconds: old.missed_window_seconds }),
    cron: cron.input.value.split("\n").filter((line) => line.trim()), overlap: overlap.input.value,
    ...(every.value() && { every_seconds: Number(every.value()) }), ...(zone.value() && { time_zone: zone.value() }),
  });
  const work = () => (old && !old.run ? { flow: old.flow } : { run: {
    ...Object.fromEntries(Object.entries(old?.run ?? {}).filter(([each, value]) => value !== null && !NOT_GIVEN.includes(each))),
    crawler: crawler.value(), arguments: pairsOf(args.input),
  } });
  openDialog({
    title: old ? `Change ${old.schedule_id}` : "Make a schedule", submit: old ? "Save" : "Make", first: old ? cron.input : name.input,
    content: [!old && name.element, ...ofRun, cron.element, h("div.fields", every.element, zone.element), overlap.element,
      old && h("button.danger", ({ target }) => { target.closest("dialog").close(); askToDelete(old.schedule_id, done); }, "Delete …")].filter(Boolean),
    send: async () => {
      await put(addressOf(old?.schedule_id ?? name.value()), { ...rules(), ...work() }, old ? {} : { "If-None-Match": "*" });
      done();
    },
  });
}
