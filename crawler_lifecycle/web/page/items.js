import { addressOf, alertLine, chipGroup, choice, counted, crawled, drawChips, get, h, inWords, lasting, mayOperate, named, number, options, pairsOf, pill, runLink, say, searchField, setText, sum, when } from "/kit.js";
import { field, openDialog, question } from "/dialog.js";
import { makeTable } from "/table.js";

const OURS = /^(FLOW_ID|PARENT_NAME|JOBSEQ|RETRIED_FROM)=/; // tags that each job has

const BAD = ["failed", "cancelled", "refused"];
export const ENDED = ["completed", ...BAD];
export const ITEM_STATES = ["waiting", "running", ...ENDED];
const PAGE = 100;
const CANCELLED = "What is cancelled is never crawled, unless somebody retries it.";

export function makeItems({ path, place, keep, act, send, signal }) {
  let manager = null;
  const filter = (change) => { keep(change); table.restart(); };
  const search = (name, label) => searchField(label, { value: place.get(name), onchange: ({ target }) => filter({ [name]: target.value.trim() }) });
  const which = choice("Manager", {}, null, (value) => filter({ manager: value }));
  const chips = chipGroup("State of items");
  const told = h("p.quiet");
  const problem = alertLine();
  const trace = h("pre.log", { tabindex: "0", "aria-label": "Traceback" });
  const button = (name, verb, numbers) => h("button", () => act(`${verb}-items`, { manager: manager.path, numbers }, (count) => `${name}: ${counted(count, "item")}.`).then(table.load), name);
  // Without a crawler an item has never been fit to start. What the manager's own filter refused stays as it is.
  const buttons = ({ key, state, crawler, override, is_filtered: isFiltered }) => mayOperate() && !isFiltered && h("div.actions",
    state === "waiting" && h("button", () => ask("Cancel", "cancel", 1, CANCELLED, [key]), "Cancel …"),
    BAD.includes(state) && (crawler ? button("Retry", "retry", [key]) : h("button", () => correct(key, override), "Correct …")),
    state === "refused" && button("Dismiss", "cancel", [key]));
  const retry = h("button", () => ask("Retry", "retry", manager.counts.failed, "Each failed item gets another crawl."), "Retry all that failed …");
  const cancel = h("button", () => ask("Cancel", "cancel", manager.counts.waiting, `${CANCELLED} Running items continue.`), "Cancel all that wait …");
  const resume = h("button", () => act("hold", { hold: "run" }, () => "The manager continues.").then(table.load), "Resume");

  const table = makeTable({
    signal, none: "No such items.",
    columns: {
      Item: ({ key }) => key,
      State: ({ state }) => pill(state),
      Crawl: ({ crawler, override, arguments: given }) => [crawler, h("small", { title: JSON.stringify(override) }, " ", named(given ?? override.spider_args ?? override).join(" "))],
      Labels: ({ labels, tags }) => [...labels, ...tags].filter((each) => !OURS.test(each)).join(" "),
      Why: (item) => [item.problem ?? inWords(item.outcome), item.state === "running" && item.ended_at && ": the manager has not processed the end yet", item.tries > 1 && ` (attempt ${item.tries})`, item.due && " again ", item.due && when(item.due)],
      Run: ({ run_id: run }) => run && runLink(run, run),
      "Took|took": (item) => lasting(item.started_at, item.ended_at),
      "|act": buttons,
    },
    read: async (after) => {
      const { managers } = await get(`${path}/managers`, signal);
      manager = managers.find((each) => each.path === place.get("manager")) ?? managers[0];
      if (!manager) return { items: [] };
      draw(managers);
      const { item: state, outcome, tag } = Object.fromEntries(place);
      const ask = (after) => get(addressOf(`${path}/items`, { manager: manager.path, limit: PAGE, after, state, outcome, tag }), signal);
      let page = await ask(after);
      for (let more = 9; more-- && page.next && !page.items[0]; ) page = await ask(page.next);
      return { ...page, items: page.items.map((item) => ({ key: item.number, ...item })) };
    },
  });

  function ask(name, verb, count, about, numbers) {
    const what = `${name} ${counted(count, "item")}`;
    question(`${what}?`, what, about, async () => {
      await send(`${verb}-items`, { manager: manager.path, numbers }, (done) => `${name}: ${counted(done, "item")}.`);
      table.load();
    }, verb === "cancel");
  }

  function correct(item, { spider, spider_args: args }) {
    const crawler = field("correct-spider", "Crawler", { value: spider || null, maxlength: 128 });
    const values = field("correct-arguments", "Arguments, one name=value a line", { rows: 3, spellcheck: "false" }, "textarea", named(args ?? {}).join("\n"));
    openDialog({
      title: `Correct item ${item}`, submit: "Retry", first: crawler.input, content: [crawler.element, values.element],
      send: async () => {
        await send("retry-items", { manager: manager.path, numbers: [item], spider: crawler.value(), arguments: pairsOf(values.input) }, () => `Item ${item} waits.`);
        table.load();
      },
    });
  }

  function draw(managers) {
    const { counts, problem: failure } = manager;
    which.hidden = managers.length < 2;
    which.replaceChildren(...options(Object.fromEntries(managers.map((each) => [each.path, each.path])), manager.path));
    const state = place.get("item");
    drawChips(chips, ITEM_STATES, (each) => sum(counts, ...(each ? [each] : ITEM_STATES)), (each) => each === state, (each) => filter({ item: each }));
    setText(told, [`${manager.function}: ${manager.is_exhausted ? `all ${counted(manager.read, "input")} read` : `${counted(manager.read, "input")} read so far`}`,
      counts.repeated && `${counted(counts.repeated, "duplicate")} skipped`, crawled(manager.stats), manager.close_reason].filter(Boolean).join("; "));
    say(problem, failure && `The manager is paused: ${failure.phase} failed.`);
    setText(trace, failure?.error ?? "");
    const may = mayOperate();
    resume.hidden = !may || !failure;
    retry.hidden = !may || !counts.failed;
    cancel.hidden = !may || !counts.waiting;
  }

  return {
    element: h("div.ledger", h("div.tools", which, chips, search("outcome", "Outcome"), search("tag", "Tag or label")),
      told, problem, trace, h("div.actions", resume, retry, cancel), table.element),
    load: table.load,
  };
}
