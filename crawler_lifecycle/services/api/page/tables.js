import { crawled, crawlerLink, duration, endedBecause, fill, get, h, inWords, isOver, lasting, link, mayOperate, number, pill, post, runLink, setText, shownStatus, took, when } from "/kit.js";
import { drawColumns } from "/chart.js";
import { openStart } from "/start.js";
import { commandButton, showTable } from "/table.js";

const RUNS = 60;
const LATEST = 200;
const OF_A_RUN = {
  Run: (run) => runLink(run.run_id, run.run_id), Status: (run) => pill(shownStatus(run)), Created: (run) => when(run.created_at),
  Took: (run) => lasting(run.begun_at, run.finished_at), Crawled: (run) => crawled(run.stats),
  Why: (run) => (isOver(run) && run.reason !== "all_succeeded" ? endedBecause(run) : ""),
};

export function showCrawlers({ main, signal }) {
  showTable({
    main, signal, title: "Crawlers", none: "The catalogue has no crawlers: add one to its file.",
    about: [h("p.quiet", `Each with its latest run, if it is one of the latest ${LATEST} of all crawlers.`)],
    columns: {
      Crawler: ({ key }) => crawlerLink(key),
      ...Object.fromEntries(Object.entries(OF_A_RUN).map(([name, cell]) => [name, ({ latest }) => latest && cell(latest)])),
      "|act": ({ key }) => mayOperate() && h("div.actions", h("button", () => openStart({ crawler: key }), "Start \u2026")),
    },
    read: async () => {
      const [{ crawlers }, { runs }] = await Promise.all([get("/v1/crawlers", signal), get(`/v1/runs?flows=true&limit=${LATEST}`, signal)]);
      return { items: crawlers.map((key) => ({ key, latest: runs.find((run) => run.crawler === key) })) };
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
  get(`/v1/crawlers/${encodeURIComponent(name)}`, signal).then((found) => setText(entry, JSON.stringify(found, null, 1)), (error) => setText(entry, error.message));
  showTable({
    main, signal, title: name, about: [about], none: "No run of this crawler yet.",
    columns: OF_A_RUN,
    read: async () => {
      const [{ runs }, { schedules }] = await Promise.all([
        get(`/v1/runs?${query}&limit=${RUNS}`, signal), get("/v1/schedules", signal).catch(() => ({ schedules: [] }))]);
      const own = schedules.filter((each) => each.crawler === name);
      fill(plans, own.flatMap((each) => ["Schedule ", link("#/schedules", each.schedule_id), ": ", when(each.next_at[0]) ?? (each.paused ? "paused" : "no further start"), ". "]));
      const over = runs.filter(isOver).reverse();
      const judged = over.filter((run) => shownStatus(run) !== "STOPPED");
      const good = judged.filter((run) => run.status === "COMPLETED").length;
      setText(told, judged.length ? `${number(Math.round(100 * good / judged.length))} % of the latest ${number(judged.length)} runs completed.` : "");
      const column = (run, value) => ({ title: `run ${run.run_id}, ${shownStatus(run).toLowerCase()}`, status: shownStatus(run), value });
      drawColumns(durations, over.map((run) => column(run, took(run))), duration);
      drawColumns(items, over.map((run) => column(run, run.stats?.items ?? 0)), number);
      return { items: runs.map((run) => ({ key: run.run_id, ...run })) };
    },
  });
}

export function showSchedules({ main, signal }) {
  const button = ({ key }, verb, name) => commandButton(name, async () => {
    await post(`/v1/schedules/${encodeURIComponent(key)}/${verb}`);
    return `${name}: ${key}.`;
  }, () => table.load());
  const table = showTable({
    main, signal, title: "Schedules", none: "No schedules yet. `crawlctl schedule create` makes one.",
    columns: {
      Schedule: ({ key }) => h("b", key), Starts: (each) => (each.crawler ? crawlerLink(each.crawler) : each.flow_id),
      When: (each) => [...each.cron, each.every_seconds && `every ${duration(each.every_seconds * 1000)}`, each.cron.length > 0 && each.time_zone].filter(Boolean).join(", "),
      Next: (each) => (each.paused ? pill("paused") : each.next_at.slice(0, 3).flatMap((at, place) => [place > 0 && ", ", when(at)])), Last: (each) => when(each.last_started_at),
      "|act": (each) => mayOperate() && h("div.actions", button(each, "trigger", "Start now"),
        each.paused ? button(each, "resume", "Resume") : button(each, "pause", "Pause")),
    },
    read: async () => ({ items: (await get("/v1/schedules", signal)).schedules.map((each) => ({ key: each.schedule_id, ...each })) }),
  });
}

export function showAudits({ main, signal }) {
  const about = h("p.quiet");
  showTable({
    main, signal, title: "Audits", about: [about], none: "The audits found nothing that disagrees.",
    columns: {
      Finding: (each) => h("b", inWords(each.kind)), Run: (each) => (each.run_id ? runLink(each.run_id, each.run_id) : each.subject),
      What: (each) => each.message, Done: (each) => each.problem ?? each.action ?? "",
      Since: (each) => when(each.first_seen_at), Closed: (each) => (each.closed_at ? when(each.closed_at) : pill("open")),
    },
    read: async () => {
      const { findings, last_complete_at: last } = await get("/v1/audits", signal);
      fill(about, last ? ["The last complete audit ended ", when(last), "."] : ["No audit has been complete yet."]);
      return { items: findings.map((each) => ({ key: `${each.kind}${each.subject}${each.first_seen_at}`, ...each })) };
    },
  });
}
