// The API is asked with the token that the page was opened with, in a header, never in an address.

const KEPT = "token";
const SCOPES = "scopes"; // with the token, so that a page that is loaded anew shows its buttons at once

export class Problem extends Error {
  constructor(status, detail, field, pause) {
    super(field && !detail.startsWith(`${field}: `) ? `${field}: ${detail}` : detail);
    Object.assign(this, { status, field, pause });
  }
}

// The link's fragment is taken out of the address at once, so that nobody copies it.
export function takeToken() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    keepToken(decoded(given[1]));
    history.replaceState(null, "", location.pathname + "#/");
  }
}

// `cut`: for the broken text of a link that was cut.
export function decoded(text, cut = text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return cut;
  }
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEPT));
export const forgetToken = () => [KEPT, SCOPES].forEach((name) => sessionStorage.removeItem(name));
export const may = (scope) => (sessionStorage.getItem(SCOPES) ?? "").split(" ").includes(scope);

export function keepToken(token) {
  forgetToken();
  sessionStorage.setItem(KEPT, token);
}

// Whether they are new.
export function keepScopes(scopes) {
  const known = sessionStorage.getItem(SCOPES);
  sessionStorage.setItem(SCOPES, scopes);
  return known !== sessionStorage.getItem(SCOPES);
}

export const get = (path, signal) => call("GET", path, undefined, {}, signal);
export const post = (path, body = {}, headers = {}) => call("POST", path, body, headers);
export const put = (path, body, headers = {}) => call("PUT", path, body, headers);

// A file of the API: a link could not carry the token.
export async function save(path, name, headers = {}) {
  const link = document.createElement("a");
  const answer = await ask(path, { headers });
  const isInBucket = answer.headers.get("Content-Type") === "application/json"; // our policy lets only a link lead there
  link.href = isInBucket ? (await answer.json()).url : URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const PATIENCE = 30_000; // also with a browser that waits for a connection to become free

// Whether the same may be asked again. Answers of 4xx say that nothing was done, but for these.
export const isOpen = ({ status }) => !(status >= 400 && status < 500) || [408, 425, 429].includes(status);

export const pauseAfter = ({ pause }) => Math.max(2000, (pause ?? 0) * 1000);

export async function call(method, path, body, headers = {}, signal = null) {
  const limit = AbortSignal.timeout(PATIENCE);
  const response = await ask(path, {
    method,
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return response.json().catch(failed);
}

// Also an answer that breaks off in the middle is none.
function failed(error) {
  if (error.name === "AbortError") throw error;
  throw new Problem(0, "the API does not answer");
}

async function ask(path, options) {
  const headers = { ...options.headers, Authorization: `Bearer ${sessionStorage.getItem(KEPT) ?? ""}` };
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" }).catch(failed);
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  if (response.status === 401) document.dispatchEvent(new Event("token-needed"));
  const pause = Number(response.headers.get("Retry-After")) || 0;
  throw new Problem(response.status, told.detail ?? response.statusText, told.field, pause);
}

const SILENCE = 30_000;
const SHORTEST = 500;
const LONGEST = 10_000;

// Follows a stream of events indefinitely. `told` hears "live", or why it is not, whether that is final, and when the API was
// last heard; `begun` that the stream is there (again). After `silent` milliseconds without anything the API is away.
// A hidden tab follows nothing: a browser opens six connections to one address, for all of its tabs together.
export async function follow(path, { event, told, begun = () => {}, signal, final = [401, 403], silent = SILENCE }) {
  let last = null;
  let pause = SHORTEST;
  let since = new Date().toISOString();
  while (!signal.aborted) {
    await shown();
    if (signal.aborted) return;
    const silence = new AbortController();
    let left = false;
    const leave = () => {
      left = true;
      silence.abort();
    };
    document.addEventListener("visibilitychange", leave);
    let timer;
    const heard = (at = new Date().toISOString()) => {
      since = at;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), silent);
    };
    try {
      heard(since);
      const response = await ask(path, { signal: AbortSignal.any([signal, silence.signal]), headers: last === null ? {} : { "Last-Event-ID": last } });
      begun();
      for await (const each of events(response.body, heard)) {
        pause = SHORTEST;
        last = each.id ?? last;
        if (each.kind !== "problem") told("live");
        if (event(each) === "end") return;
      }
      told("the stream ended", false, since);
    } catch (error) {
      if (signal.aborted) return;
      if (left) continue;
      if (final.includes(error.status)) return told(error.message, true);
      if (error.status === 422 && error.field === "Last-Event-ID") last = null;
      told(error.name === "AbortError" ? "the API is silent" : error.message, false, since);
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", leave);
    }
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, LONGEST);
  }
}

const shown = () => new Promise((resume) => {
  if (!document.hidden) return resume();
  document.addEventListener("visibilitychange", resume, { once: true });
});

async function* events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let searched = 0; // an event of many jobs comes in many parts
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value;
    let end;
    while ((end = text.indexOf("\n\n", searched)) >= 0) {
      searched = 0;
      const parsed = parse(text.slice(0, end));
      text = text.slice(end + 2);
      if (parsed) yield parsed;
    }
    searched = Math.max(0, text.length - 1);
  }
}

function parse(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
  }
  return fields.event ? { kind: fields.event, data: JSON.parse(fields.data), id: fields.id ?? null } : null;
}
