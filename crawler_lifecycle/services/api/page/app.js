// Which view is shown, and is the connection alive?

import { forgetToken, get, hasToken, keepToken, takeToken } from "/api.js";
import { h, setText } from "/dom.js";
import { showLimits } from "/limits.js";
import { goLive, listen, stopLive } from "/live.js";
import { showRun } from "/run.js";
import { showRuns } from "/runs.js";
import { goOnStarting, openStart } from "/start.js";

const main = document.getElementById("main");
const startButton = document.getElementById("start");
const banner = document.getElementById("banner");
const live = document.getElementById("live");
const limitsLink = document.getElementById("limits");
const LIMITS = "/limits";
let shown = new AbortController();
let wasRefused = false; // the token before
let list = "#/"; // as it was left, with its filters

function route() {
  shown.abort();
  shown = new AbortController();
  const [path, query] = location.hash.slice(1).split("?");
  const run = /^\/runs\/([^/]+)$/.exec(path);
  main.replaceChildren();
  if (!hasToken()) return askForToken();
  document.title = run ? `Run ${run[1]}` : path === LIMITS ? "Limits" : "Runs";
  if (path === LIMITS) limitsLink.setAttribute("aria-current", "page");
  else limitsLink.removeAttribute("aria-current");
  if (path === LIMITS) showLimits(main, shown.signal);
  else if (run) showRun(main, run[1], new URLSearchParams(query), list, shown.signal);
  else if (path && path !== "/") showNothing(path);
  else {
    list = `#/${query ? `?${query}` : ""}`;
    showRuns(main, new URLSearchParams(query), shown.signal);
  }
}

function showNothing(path) {
  document.title = "Not found";
  main.replaceChildren(h("p", { class: "empty" }, `There is no page ${path}. `, h("a", { href: "#/" }, "The runs")));
}

function askForToken() {
  startButton.hidden = live.hidden = banner.hidden = limitsLink.hidden = true;
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    wasRefused = false;
    keepToken(field.value.trim());
    begin();
  };
  main.replaceChildren(
    h("form", { class: "card narrow", onsubmit: enter },
      h("h1", {}, "A token is needed"),
      wasRefused && h("p", { class: "problem", role: "alert" }, "The token is not valid: it is mistyped, or was revoked."),
      h("p", { class: "quiet" }, h("code", {}, "crawlctl up"), " prints a link with one. Elsewhere, ",
        h("code", {}, "crawlctl token create NAME"), " makes one that may read; with ",
        h("code", {}, "--scope read --scope operate"), " it may start and stop runs as well."),
      h("label", { for: "token" }, "Token"), field,
      h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, "Go on"))),
  );
  field.focus();
}

function begin() {
  route();
  if (!hasToken()) return;
  live.hidden = limitsLink.hidden = false;
  goLive();
  learnScopes();
}

async function learnScopes() {
  try {
    const me = await get("/v1/me");
    document.body.dataset.scopes = me.scopes.join(" ");
    document.dispatchEvent(new Event("scopes-known"));
    startButton.hidden = !me.scopes.includes("operate");
    if (!startButton.hidden) goOnStarting();
  } catch (error) {
    if (error.status !== 401) setTimeout(learnScopes, 2000);
  }
}

listen(({ kind, state, isFinal }) => {
  if (kind !== "state" || !hasToken()) return;
  const works = state === "live";
  live.dataset.state = works ? "live" : "away";
  setText(live, works ? "live" : "not live");
  banner.hidden = works;
  setText(banner, works ? "" : `What is shown may be old: ${state}.${isFinal ? "" : " Trying again ..."}`);
}, new AbortController().signal);

document.addEventListener("token-needed", () => {
  if (!hasToken()) return;
  forgetToken();
  wasRefused = true;
  stopLive();
  route();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "n" && !startButton.hidden) {
    event.preventDefault();
    openStart();
  }
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  }
});

// Not by its address: what is behind the # says which view is shown.
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
  }
});
takeToken();
begin();
