import { capital, crawled, crawlerLink, duration, endedBecause, fill, get, h, inWords, isOver, lasting, link, look, mayOperate, number, pill, post, progress, runLink, setText, shownStatus, standing, time, toast, took, when } from "/kit.js";
import { drawColumns } from "/chart.js";
import { question } from "/dialog.js";
import { openStart } from "/start.js";
import { showTable } from "/table.js";

const RUNS = 60;
const OF_A_RUN = {
  Run: (run) => runLink(run.run_id, run.run_id), Status: standing, Created: (run) => when(run.created_at),
  Took: (run) => lasting(run.begun_at, run.finished_at),
  "Details|why": (run) => [isOver(run) ? run.reason !== "all_succeeded" && h("p.because", endedBecause(run)) : progress(run), h("span.crawled", crawled(run.stats))],
};

// None while Temporal does not answer.
const readSchedules = (signal) => get("/v1/schedules", signal).then(({ schedules }) => schedules, () => []);

export function showCrawlers({ main, signal }) {
  let [schedules, asking] = [[], null];
  const learn = () => { // the list does not wait for Temporal
    asking ??= readSchedules(signal).then((found) => { schedules = found; asking = null; });
    return Promise.race([asking, new Promise((resume) => setTimeout(resume, 500))]);
  };
  showTable({
    main, signal, title: "Crawlers", none: "The catalogue has no crawlers: add one to its file.",
    columns: {
      "Crawler|name": ({ key }) => crawlerLink(key),
      "Last ten runs|dots": ({ ends }) => health(ends),
      ...Object.fromEntries(Object.entries(OF_A_RUN).map(([name, cell]) => [name, ({ latest }) => (latest ? cell(latest) : name === "Status" && h("span.quiet", "never run"))])),
      Next: ({ next }) => next && due(next),
      "|act": ({ key }) => mayOperate() && h("div.actions", h("button", () => openStart({ crawler: key }), "Start \u2026")),
    },
    read: async () => {
      const [{ crawlers }] = await Promise.all([get("/v1/crawler-runs", signal), learn()]);
      const next = (crawler) => schedules.filter((each) => each.crawler === crawler && !each.paused).flatMap((each) => each.next_at).sort()[0];
      return { items: crawlers.map(({ crawler, ...rest }) => ({ key: crawler, look: rest.latest && look(rest.latest), next: next(crawler), ...rest })) };
    },
  });
}

export function showCrawler({ main, name, signal }) {
  const query = `crawler=${encodeURIComponent(name)}&flows=true`;
  const [told, plans] = [h("p.waits"), h("p.quiet")];
  const [durations, items] = [h("div"), h("div")];
  const entry = h("pre.log");
  const about = h("div.run", told, plans,
    h("div.columns", h("section.card", h("h2", "Duration"), durations), h("section.card", h("h2", "Items"), items)),
    h("details", h("summary", "Catalogue entry"), entry), h("h2", "Latest runs"));
  const start = h("button.primary", { hidden: true, onclick: () => openStart({ crawler: name }) }, "Start \u2026");
  let isKnown = true;
  get(`/v1/crawlers/${encodeURIComponent(name)}`, signal).then((found) => setText(entry, JSON.stringify(found, null, 1)), (error) => {
    isKnown = ![404, 410, 422].includes(error.status);
    setText(entry, error.message);
    table.load();
  });
  const table = showTable({
    main, signal, title: name, tools: h("div.actions.right", start), about: [about], none: "No run of this crawler yet.",
    columns: OF_A_RUN,
    read: async () => {
      const [{ runs }, schedules] = await Promise.all([get(`/v1/runs?${query}&limit=${RUNS}`, signal), readSchedules(signal)]);
      const own = schedules.filter((each) => each.crawler === name);
      fill(plans, own.flatMap((each) => ["Schedule ", link("#/schedules", each.schedule_id), ": ", due(each.next_at[0]) ?? (each.paused ? "paused" : "no further start"), ". "]));
      const over = runs.filter(isOver).reverse();
      const judged = over.filter((run) => shownStatus(run) !== "STOPPED");
      const good = judged.filter((run) => look(run) === "COMPLETED").length;
      if (!isKnown && !runs.length) return showUnknown(main, name);
      start.hidden = !mayOperate() || !isKnown;
      setText(told, [!isKnown && "This crawler is no longer in the catalogue.", successOf(good, judged.length)].filter(Boolean).join(" "));
      const column = (run, value) => ({ title: `run ${run.run_id}, ${shownStatus(run).toLowerCase()}`, status: look(run), value });
      drawColumns(durations, over.map((run) => column(run, took(run))), duration, "No run is over yet.");
      drawColumns(items, over.map((run) => column(run, run.stats?.items ?? null)), number, "No items reported.");
      return { items: runs.map((run) => ({ key: run.run_id, look: look(run), ...run })) };
    },
  });
}

function showUnknown(main, name) {
  document.title = "Not found";
  main.replaceChildren(h("p.empty", `There is no crawler ${name} in the catalogue, and no run of it.`, h("br"), h("a.button", { href: "#/crawlers" }, "Show all crawlers")));
  return { items: [] };
}

// How the latest runs ended, newest last.
export function health(ends) {
  const judged = ends.filter(({ status }) => ["COMPLETED", "FAILED"].includes(status));
  const good = judged.filter((end) => look(end) === "COMPLETED").length;
  const told = (end) => `${end.run_id ? `run ${end.run_id}` : end.name}: ${[end.status.toLowerCase(), end.outcome].filter(Boolean).join(", ")}`;
  return ends.length > 0 && [h("span.ends", { role: "img", "aria-label": `The last runs, oldest first: ${ends.toReversed().map(told).join("; ")}` },
    ends.toReversed().map((end) => h("i", { dataset: { status: look(end) }, title: told(end) }))), judged.length > 0 && h("small.num", `${number(Math.round(100 * good / judged.length))} %`)];
}

function successOf(good, all) {
  if (!all) return "";
  if (all === 1) return good ? "The last run finished." : "The last run did not finish well.";
  return `${number(Math.round(100 * good / all))} % of the last ${number(all)} runs finished.`;
}

// The day, if it is not within one.
export const due = (at) => (Date.parse(at) - Date.now() > 86_400_000 ? time(at) : when(at));

export function showAudits({ main, signal }) {
  const about = h("p.quiet");
  const now = h("button", { hidden: true, onclick: () => question(
    "Audit now?", "Audit now", "The audit also repairs what it finds: it ends leftover jobs, for example.",
    async () => { await post("/v1/audits", { repair: true }); toast("The audit has started."); table.load(); },
  ) }, "Audit now \u2026");
  const table = showTable({
    main, signal, title: "Audits", tools: h("div.actions.right", now), about: [about], none: "The audits found nothing that disagrees.",
    columns: {
      Finding: (each) => h("b", inWords(each.kind)), Run: (each) => (each.run_id ? runLink(each.run_id, each.run_id) : each.subject),
      What: (each) => each.message, Done: (each) => each.problem ?? each.action ?? "",
      Since: (each) => when(each.first_seen_at), Closed: (each) => (each.closed_at ? when(each.closed_at) : pill("open")),
    },
    read: async () => {
      const { audits, findings, last_complete_at: last, first_due: first, problem } = await get("/v1/audits", signal);
      now.hidden = !mayOperate();
      const examined = Object.values(audits.find((each) => each.complete)?.parts ?? {}).reduce((all, part) => all + part.examined, 0);
      fill(about, ["An audit compares the database with Temporal and the cluster, and repairs what disagrees. ",
        ...(last ? ["The last complete audit ended ", when(last), examined > 0 && `, after ${number(examined)} checks`, "."] : [first ? `${capital(first)}.` : "No audit has been complete yet."]), problem && h("b.bad", ` ${capital(problem)}.`)]);
      return { items: findings.map((each) => ({ key: `${each.kind}${each.subject}${each.first_seen_at}`, ...each })) };
    },
  });
}
