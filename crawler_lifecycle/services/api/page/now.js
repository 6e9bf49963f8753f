import { counted, fill, get, h, link, listen, number, sum } from "/kit.js";

const DAY = 86_400_000;
const AGAIN = 15_000;
const SOON = 3000;

export function makeNow(signal) {
  let timer = null;
  const element = h("ul.now", { "aria-label": "What is wrong now" });

  async function load() {
    clearTimeout(timer);
    const since = encodeURIComponent(new Date(Date.now() - DAY).toISOString());
    const [runs, audits, limits] = await Promise.allSettled([
      get(`/v1/run-counts?since=${since}&flows=true`, signal), get("/v1/audits?limit=0", signal), get("/v1/limits", signal)]);
    if (signal.aborted) return;
    const failed = runs.value?.counts.FAILED ?? 0;
    const found = sum(audits.value?.open ?? {});
    const paused = (limits.value?.limits ?? []).filter((each) => each.paused_at).length;
    const line = (kind, text, href) => h("li", { dataset: { kind } }, link(href, text));
    fill(element, [
      failed > 0 && line("bad", `${number(failed)} failed in 24 hours`, "#/?listed=FAILED&within=24h&flows=true"),
      found > 0 && line("odd", `${counted(found, "finding")} of audits`, "#/audits"),
      paused > 0 && line("odd", counted(paused, "pause"), "#/installation"),
      runs.value && !failed && line("good", "nothing failed in 24 hours", "#/?within=24h"),
    ]);
    timer = setTimeout(() => document.hidden || load(), AGAIN);
  }

  listen(({ kind }) => {
    if (kind !== "ready") return;
    clearTimeout(timer);
    timer = setTimeout(load, SOON);
  }, signal);
  return { element, load };
}
