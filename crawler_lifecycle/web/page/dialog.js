// A form in a dialog. An error of `send` is shown at its field, otherwise the dialog closes.

import { alertLine, get, h, say, setText } from "/kit.js";

export function openDialog({ title, content, submit, danger = false, first, send }) {
  const closed = new AbortController();
  const problem = alertLine();
  const leave = h("button", () => dialog.close(), "Cancel");
  const button = h("button", { class: danger ? "danger" : "primary", type: "submit" }, submit);
  const actions = h("div.actions", leave, button);
  const form = h("form", { onsubmit: go }, h("h2", { id: "dialog-title" }, title), content.flat(), problem, actions);
  const dialog = h("dialog.card", {
    "aria-labelledby": "dialog-title", onclose: () => { closed.abort(); dialog.remove(); },
  }, form);

  // There is nothing to send any more.
  function end(text) {
    closed.abort();
    button.hidden = true;
    setText(leave, "Close");
    say(problem, text);
    leave.focus();
  }

  async function go(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      await send(end);
      if (!button.hidden) dialog.close();
    } catch (error) {
      const at = form.elements.namedItem(error.field ?? "");
      const place = at?.closest(".field");
      place ? place.append(problem) : actions.before(problem);
      say(problem, error.message);
      button.disabled = false;
      at?.focus();
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  (first ?? button).focus();
  return { end, signal: closed.signal };
}

export const question = (title, submit, about, send, danger = true) => openDialog({ title, submit, danger, content: [h("p.quiet", about)], send });

export function field(id, label, properties = {}, tag = "input", ...children) {
  const input = h(tag, { id, name: id.slice(id.indexOf("-") + 1), autocomplete: "off", ...properties }, ...children);
  return { input, element: h("div.field", h("label", { for: id }, label), input), value: () => input.value.trim() || null };
}

// Suggestions for the fields with this list. Anything else can be typed, too.
export function suggestions(id, path, values) {
  const list = h("datalist", { id });
  get(path).then((found) => list.append(...values(found).map((value) => h("option", { value }))), () => {});
  return list;
}

export const reasonField = () => field("reason", "Reason", { maxlength: 1024 });
