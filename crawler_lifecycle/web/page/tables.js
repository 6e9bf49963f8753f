import { capital, counted, crawled, crawlerLink, duration, endedBecause, fill, get, h, inWords, isOver, lasting, link, look, mayOperate, number, pairs, pill, post, progress, runLink, setText, showMissing, shownStatus, standing, sum, time, toast, took, when } from "/kit.js";
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
      "|act": ({ key }) => mayOperate() && h("div.actions", h("button", () => openStart({ crawler: key }), "Start …")),
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
  const start = h("button.primary", { hidden: true, onclick: () => openStart({ crawler: name }) }, "Start …");
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
      if (!isKnown && !runs.length) showMissing(main, `There is no crawler ${name} in the catalogue, and no run of it.`, "#/crawlers", "Show all crawlers");
      start.hidden = !mayOperate() || !isKnown;
      setText(told, [!isKnown && "This crawler is no longer in the catalogue.", judged.length > 0 && `${number(good)} of the last ${counted(judged.length, "run")} finished.`].filter(Boolean).join(" "));
      const column = (run, value) => ({ title: `run ${run.run_id}, ${shownStatus(run).toLowerCase()}`, status: look(run), value });
      drawColumns(durations, over.map((run) => column(run, took(run))), duration, "No run is over yet.");
      drawColumns(items, over.map((run) => column(run, run.stats?.items ?? null)), number, "No items reported.");
      return { items: runs.map((run) => ({ key: run.run_id, look: look(run), ...run })) };
    },
  });
}

// How the latest runs ended, newest last.
export function health(ends) {
  const judged = ends.filter(({ status }) => ["COMPLETED", "FAILED"].includes(status));
  const good = judged.filter((end) => look(end) === "COMPLETED").length;
  const told = (end) => `${end.run_id ? `run ${end.run_id}` : end.name}: ${[end.status.toLowerCase(), end.outcome].filter(Boolean).join(", ")}`;
  return ends.length > 0 && [h("span.ends", { role: "img", "aria-label": `The last runs, oldest first: ${ends.toReversed().map(told).join("; ")}` },
    ends.toReversed().map((end) => h("i", { dataset: { status: look(end) }, title: told(end) }))), judged.length > 0 && h("small.num", `${number(Math.round(100 * good / judged.length))} %`)];
}

// The day, if it is not within one.
export const due = (at) => (Date.parse(at) - Date.now() > 86_400_000 ? time(at) : when(at));

const KINDS = { unsupervised: "no workflow", undelivered: "notice not delivered", miscounted: "limits miscounted" };
const withTimes = (text) => capital(text).split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).map((each, place) => (place % 2 ? time(each) : each));

export function showAudits({ main, signal }) {
  const [tiles, problems] = [h("dl.tiles"), h("div.health")];
  const now = h("button", { hidden: true, onclick: () => question(
    "Audit now?", "Audit now", "The audit also repairs what it finds: it ends leftover jobs, for example.",
    async () => { await post("/v1/audits", { repair: true }); toast("The audit has started."); table.load(); },
  ) }, "Audit now …");
  const table = showTable({
    main, signal, title: "Audits", tools: h("div.actions.right", now), none: "The audits found nothing that disagrees.",
    about: [h("p.quiet", "An audit compares the database with Temporal and the cluster, and repairs what disagrees."), problems, tiles, h("h2", "Findings")],
    below: ({ evidence }) => evidence && h("details", h("summary", "Last lines before the end"), h("pre.log", evidence)),
    columns: {
      Finding: (each) => [h("b", capital(KINDS[each.kind] ?? inWords(each.kind))), h("p", withTimes(each.message.replace(/^it\b/, "the run")))],
      Run: (each) => each.run_id && runLink(each.run_id, each.run_id),
      Repair: (each) => [each.action && [capital(each.action), " ", h("small", when(each.acted_at), each.acts > 1 && `, ${counted(each.acts, "time")}`)],
        each.problem && !each.closed_at && h("p.bad", capital(each.problem))].flat(),
      Found: (each) => when(each.first_seen_at), State: (each) => (each.closed_at ? ["closed ", when(each.closed_at)] : pill("odd", "open")),
    },
    read: async () => {
      const { audits, findings, open, last_complete_at: last, next_due: next, problem } = await get("/v1/audits", signal);
      now.hidden = !mayOperate();
      const parts = Object.entries(audits.find((each) => each.finished_at)?.parts ?? {});
      fill(problems, [problem, ...parts.map(([name, part]) => part.problem && `${name}: ${part.problem}`)].filter(Boolean).map((text) => h("p.problem", capital(text))));
      fill(tiles, pairs({
        "Next audit": next ? due(next) : "none planned", "Last complete audit": last ? when(last) : "none yet",
        "Last audit checked": parts.map(([name, part]) => `${number(part.examined)} ${name}`).join(", ") || "nothing",
        "Open findings": sum(open) ? h("b.odd", number(sum(open))) : number(0),
      }));
      return { items: findings.map((each) => ({ key: `${each.kind}${each.subject}${each.first_seen_at}${each.evidence?.length}`, ...each })) };
    },
  });
}
