import { addressOf, bar, chipGroup, counted, FLOW_STATES, get, h, JOB_STATES, lasting, link, number, Problem, searchField, stateCounts, stateInWords, sum, unknownStatus, when } from "/kit.js";
import { flowPill, waitInWords } from "/standing.js";
import { showTable } from "/table.js";

const PAGE = 50;
const AGAIN = 3000; // no stream covers all flows

export function showFlows({ main, place: filter, signal }) {
  const state = filter.get("state");
  const needy = filter.get("attention") === "true";
  const chip = (text, isChosen, change, status) => h("a.chip", {
    dataset: status ? { status } : {}, "aria-current": isChosen ? "true" : null, href: address(change),
  }, text);
  const chips = chipGroup("State", [
    ...[null, ...FLOW_STATES].map((each) => chip(each ? stateInWords(each) : "all", each === state, { state: each }, each)),
    chip("needs attention", needy, { attention: needy ? null : "true" }),
  ]);
  const search = searchField("Name or id", {
    value: filter.get("search"), onchange: ({ target }) => { location.hash = address({ search: target.value.trim() }); },
  }, "Name or id  ( / )");
  const unknown = unknownStatus("state", filter.getAll("state"), FLOW_STATES);
  function address(change) {
    return addressOf("#/flows", { ...Object.fromEntries(filter), ...change });
  }

  showTable({
    main, signal, title: "Flows", tools: [chips, search], kind: "flows", again: AGAIN,
    none: filter.size ? "No such flows." : "No flows yet. `crawlctl flow run FILE` starts one.",
    columns: {
      Flow: ({ id, name, created_by: by }) => [link(`#/flows/${encodeURIComponent(id)}`, id), h("small", [name, by].filter(Boolean).join(", "))],
      State: ({ state, items }) => flowPill(state, items?.failures),
      "Progress|tasks": progressOf,
      "Jobs|why": ({ state, counts, items }) => (items ? itemsInWords(state, items) : stateCounts(counts, JOB_STATES)),
      "Waits for|waits-for": ({ waits_for: waits }) => waits.map(waitInWords).join(", "),
      "Changed|at": (flow) => when(flow.updated_at),
      "Took|took": (flow) => lasting(flow.started_at, flow.stopped_at),
    },
    read: async (cursor) => {
      if (unknown) throw new Problem(404, unknown);
      const { flows, next } = await get(addressOf("/v1/flows", { ...Object.fromEntries(filter), limit: PAGE, cursor }), signal);
      return { items: flows.map((flow) => ({ key: flow.uid, ...flow })), next };
    },
  });
}

const ITEM_BAR = ["completed", "failed", "refused", "cancelled"];

// By items where there are some. While more may come, their number does not show the progress.
function progressOf({ state, counts, total, items }) {
  if (!items) return [h("span.num", `${number(sum(counts, "completed", "cancelled", "discarded"))}/${number(total)}`), bar(counts, JOB_STATES)];
  const over = sum(items, ...ITEM_BAR);
  if (mayGrow(state, items)) return h("span.num", `${number(over)} so far`);
  const parts = { ...Object.fromEntries(ITEM_BAR.map((each) => [each, items[each]])), waiting: items.total - over };
  return [h("span.num", `${number(over)}/${number(items.total)}`), bar(parts, [...ITEM_BAR, "waiting"])];
}

const mayGrow = (state, items) => !items.is_exhausted && ["executing", "paused"].includes(state);

function itemsInWords(state, items) {
  const { total, completed, failed } = items;
  return `${mayGrow(state, items) ? `${counted(completed, "item")} so far` : `${number(completed)} of ${number(total)} items`}, ${number(failed)} failed`;
}
