// Elements. Text is only ever set as text.

// `name`: tag.class.class. The first child may be an object with properties, or what a click does.
export function h(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (tag === "button") element.type = "button";
  if (typeof children[0] === "function") element.addEventListener("click", children.shift());
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(children[0]?.constructor === Object ? children.shift() : {})) {
    if ((value ?? false) === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (["dataset", "style"].includes(name)) Object.assign(element[name], value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child || child === 0)
    .map((child) => (child instanceof Node ? child : visible(String(child)))));
  return element;
}

// The path, with a query of the values that are set.
export function addressOf(path, values) {
  const query = new URLSearchParams([...values.entries?.() ?? Object.entries(values)].filter(([, value]) => value));
  return query.size ? `${path}?${query}` : path;
}

export const link = (href, ...content) => h("a", { href }, ...content);
export const crawlerLink = (name) => link(`#/crawlers/${encodeURIComponent(name)}`, name);
export const runLink = (run, text = `run ${run}`) => link(`#/runs/${run}`, text);
export const pairs = (values) => Object.entries(values).map(([name, value]) => h("div", h("dt", name), h("dd", value)));
export const outsideLink = (text) => h("a", { hidden: true, target: "_blank", rel: "noreferrer" }, text);
export function lead(link, address) {
  link.hidden = !address;
  link.href = address ?? "";
}

// In the place of a view.
export function showMissing(main, text, href, label) {
  document.title = "Not found";
  main.replaceChildren(h("p.empty", text, h("br"), h("a.button", { href }, label)));
}

export const alertLine = () => h("p.problem", { role: "alert", hidden: true });
export const emptyLine = () => h("p.empty", { hidden: true });

export function say(line, text) {
  line.hidden = !text;
  setText(line, text ?? "");
}

export const searchField = (label, properties, hint = label) => h("input", { type: "search", placeholder: hint, "aria-label": label, ...properties });
export const choice = (label, texts, chosen, onchange) => h("select", { "aria-label": label, onchange: ({ target }) => onchange(target.value) }, options(texts, chosen));
export const press = (button, isPressed) => button.setAttribute("aria-pressed", String(isPressed));
export const options = (texts, chosen = null) => Object.entries(texts).map(([value, text]) => h("option", { value, selected: value === chosen }, text));
export const chipGroup = (label, ...children) => h("div.chips", { role: "group", "aria-label": label }, ...children);

// A button's act: its failure is shown, and then it can be pressed again.
export async function attempt(button, act) {
  button.disabled = true;
  try {
    await act();
  } catch (error) {
    toast(error.message);
  }
  button.disabled = false;
}

export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

// Texts come from elsewhere: control characters are shown as signs, those that would turn around or hide others by number.
export const visible = (text) => String(text)
  .replace(/[\u0000-\u0008\u000b-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)))
  .replace(/\u007f/g, "\u2421")
  .replace(/[\u0080-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (sign) => `[U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

// One child of `parent` for each item: made once, moved if its place is wrong, painted each time.
export function patch(parent, items, key, make, update = () => {}) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const names = new Map(items.map((item) => [String(key(item)), item]));
  for (const [name, child] of known) if (!names.has(name)) child.remove(); // first: the others then stay in place, with focus and clicks
  let next = parent.firstElementChild;
  for (const [name, item] of names) {
    const child = known.get(name) ?? make(item);
    child.dataset.key = name;
    update(child, item);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

// Makes an element look like another and keeps its nodes, with the focus and a click that is under way.
export function morph(old, made) {
  if (old.isEqualNode(made)) return;
  if (old.nodeName !== made.nodeName || made.nodeName === "BUTTON" && old.firstChild?.textContent !== made.firstChild?.textContent) return old.replaceWith(made); // it does something else
  if (!made.attributes) return void (old.data = made.data);
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) name === "style" ? old.style.cssText = value : old.setAttribute(name, value);
  if ("checked" in made) old.checked = made.checked;
  fill(old, [...made.childNodes]);
}

export function fill(element, children) {
  const wanted = [...h("p", ...children).childNodes];
  while (element.childNodes.length > wanted.length) element.lastChild.remove();
  wanted.forEach((child, place) => (element.childNodes[place] ? morph(element.childNodes[place], child) : element.append(child)));
}

export const afterPaint = (act) => requestAnimationFrame(() => setTimeout(act));

export const skeleton = () =>
  h("div.skeleton", { role: "status", "aria-label": "Waits for the API" }, h("i"), h("i"), h("i"), h("i"));

export function toast(text) {
  const shown = h("p.toast", text);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), 6000);
}
