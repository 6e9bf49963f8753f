import { addressOf, bar, chipGroup, FLOW_STATES, get, h, JOB_STATES, lasting, link, number, pill, searchField, stateCounts, sum, when } from "/kit.js";
import { showTable } from "/table.js";

const PAGE = 50;
const AGAIN = 3000; // no stream tells of all flows

export function showFlows({ main, place: filter, signal }) {
  const state = filter.get("state");
  const chips = chipGroup("State", [null, ...FLOW_STATES].map((each) => h("a.chip", {
    dataset: each ? { status: each } : {}, "aria-current": each === state ? "true" : null, href: address({ state: each }),
  }, each ?? "all")));
  const family = searchField("Family", {
    value: filter.get("family"), onchange: ({ target }) => { location.hash = address({ family: target.value.trim() }); },
  }, "Family  ( / )");
  function address(change) {
    return addressOf("#/flows", { ...Object.fromEntries(filter), ...change });
  }

  showTable({
    main, signal, title: "Flows", tools: [chips, family], kind: "flows", again: AGAIN,
    none: filter.size ? "No such flows." : "No flows yet. `crawlctl flow run FILE` starts one.",
    columns: {
      Flow: ({ id, name, created_by: by }) => [link(`#/flows/${encodeURIComponent(id)}`, id), h("small", [name, by].filter(Boolean).join(", "))],
      State: ({ state }) => pill(state),
      "Progress|tasks": ({ counts, total }) => [h("span.num", `${number(sum(counts, "completed", "cancelled", "discarded"))}/${number(total)}`), bar(counts, JOB_STATES)],
      "Jobs|why": ({ counts, items }) => [stateCounts(counts, JOB_STATES),
        items && `; ${number(items.completed)} of ${number(items.total)} items, ${number(items.failed)} failed`],
      "Changed|at": (flow) => when(flow.updated_at),
      "Took|took": (flow) => lasting(flow.started_at, flow.stopped_at),
    },
    read: async (cursor) => {
      const { flows, next } = await get(addressOf("/v1/flows", { ...Object.fromEntries(filter), limit: PAGE, cursor }), signal);
      return { items: flows.map((flow) => ({ key: flow.uid, ...flow })), next };
    },
  });
}
