import { decoded, forgetToken, get, goLive, h, hasToken, keepScopes, keepToken, link, listen, may, noAnswer, pairs, readAgain, setText, showMissing, stopLive, takeToken } from "/kit.js";
import { showInstallation } from "/limits.js";
import { showRun } from "/run.js";
import { showNeeds } from "/now.js";
import { showRuns } from "/runs.js";
import { showFlow } from "/flow.js";
import { showFlows } from "/flows.js";
import { showSchedules } from "/schedules.js";
import { showAudits, showCrawler, showCrawlers } from "/tables.js";
import { goOnStarting, openStart } from "/start.js";

const [main, startButton, banner, live, places, strip] = ["main", "start", "banner", "live", "places", "needs"].map((id) => document.getElementById(id));
let shown = new AbortController();
let needs = new AbortController();
let wasRefused = false; // the token before
let list = "#/";

// By address; what is in brackets is a name. `place`: the rest of the address. `list`: that of the runs, which `keep` changes.
const PAGES = [
  [/^\/?$/, "Runs", showRuns],
  [/^\/runs\/([^/]+)$/, "Runs", showRun],
  [/^\/flows$/, "Flows", showFlows],
  [/^\/flows\/(.+)$/, "Flows", showFlow],
  [/^\/crawlers$/, "Crawlers", showCrawlers],
  [/^\/crawlers\/(.+)$/, "Crawlers", showCrawler],
  [/^\/schedules$/, "Schedules", showSchedules],
  [/^\/audits$/, "Audits", showAudits],
  [/^\/installation$/, "Installation", showInstallation],
];

function route() {
  shown.abort();
  shown = new AbortController();
  const [path, query] = location.hash.slice(1).split("?");
  main.replaceChildren();
  if (!hasToken()) return askForToken();
  const [pattern, title, show] = PAGES.find(([each]) => each.test(path)) ?? [null, "", null];
  for (const link of places.children) {
    if (link.textContent === title) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const name = show && decoded(pattern.exec(path)[1] ?? "", null);
  if (!show || name === null) return showMissing(main, `There is no page ${path}.`, "#/", "Show all runs");
  document.title = name ? `${title.replace(/s$/, "")} ${name}` : title;
  show({ main, signal: shown.signal, name, place: new URLSearchParams(query), list, keep: (address) => { list = address; } });
}

function askForToken() {
  startButton.hidden = live.hidden = banner.hidden = places.hidden = strip.hidden = true;
  needs.abort();
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    wasRefused = false;
    keepToken(field.value.trim());
    begin();
  };
  main.replaceChildren(
    h("form.card.narrow", { onsubmit: enter },
      h("h1", "Sign in with a token"),
      wasRefused && h("p.problem", { role: "alert" }, "The token is not valid: it is mistyped, or was revoked."),
      h("p.quiet", h("code", "crawlctl up"), " prints a link with one. Elsewhere, ",
        h("code", "crawlctl token create NAME"), " makes one that may read; with ",
        h("code", "--scope read --scope operate"), " it may start and stop runs as well."),
      h("label", { for: "token" }, "Token"), field,
      h("div.actions", h("button.primary", { type: "submit" }, "Sign in"))),
  );
  field.focus();
}

function begin() {
  route();
  if (!hasToken()) return;
  live.hidden = places.hidden = strip.hidden = false;
  startButton.hidden = !may("operate");
  needs.abort();
  needs = new AbortController();
  showNeeds(strip, needs.signal);
  goLive();
  learnScopes();
}

async function learnScopes() {
  try {
    const me = await get("/v1/me");
    if (keepScopes(me.scopes.join(" "))) readAgain();
    startButton.hidden = !me.scopes.includes("operate");
    if (!startButton.hidden) goOnStarting();
  } catch (error) {
    if (error.status !== 401) setTimeout(learnScopes, 2000);
  }
}

listen(({ kind, state, isFinal, since }) => {
  if (kind !== "state" || !hasToken()) return;
  const works = state === "live";
  live.dataset.state = works ? "live" : "away";
  setText(live, works ? "live" : "not live");
  banner.hidden = works;
  setText(banner, works ? "" : isFinal ? `What is shown may be old: ${state}.` : noAnswer(state, since));
}, new AbortController().signal);

document.addEventListener("token-needed", () => {
  if (!hasToken()) return;
  forgetToken();
  wasRefused = true;
  stopLive();
  route();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not(.choice), textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "n" && !startButton.hidden) {
    event.preventDefault();
    openStart();
  }
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  }
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  if (event.key === "?") showKeys();
});

function step(by) {
  const lines = [...main.querySelectorAll("tbody tr")].map((row) => row.querySelector("a, button.open")).filter(Boolean);
  const here = lines.findIndex((each) => each.closest("tr").contains(document.activeElement));
  lines[here < 0 ? 0 : Math.min(lines.length - 1, Math.max(0, here + by))]?.focus();
}

function showKeys() {
  if (document.querySelector("dialog[open]")) return;
  const keys = { "/": "Search", "j, k": "Next and previous line", "Enter": "Open", "n": "Start a run", "?": "These keys", "Esc": "Close" };
  const dialog = h("dialog.card", { "aria-label": "Keys", onclose: () => dialog.remove() }, h("h2", "Keys"),
    h("dl.facts", pairs(keys)),
    h("div.actions", h("button", () => dialog.close(), "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

// A line that moves between press and release gets no click: what lies under both places does.
let pressed = null;
document.addEventListener("pointerdown", ({ target, clientX, clientY }) => { pressed = { link: target.closest("a, button"), clientX, clientY }; });
document.addEventListener("click", ({ target, clientX, clientY }) => {
  const before = pressed;
  pressed = null;
  if (!before?.link?.isConnected || before.link === target || !target.contains(before.link)) return;
  if (Math.hypot(clientX - before.clientX, clientY - before.clientY) < 9) before.link.click();
});

// The part after the # selects the view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
startButton.addEventListener("click", () => openStart());
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) {
    takeToken();
    begin();
  } else {
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close(); // it belongs to the page before
    route();
    main.focus({ preventScroll: true });
  }
});
takeToken();
begin();
