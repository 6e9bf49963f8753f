// Bars in time, coloured by state.

import { duration, fill, h, link, moment, setText } from "/kit.js";

// `rows`: {name, href?, parts: [{from, to?, status, word?}]}; a part without an end lasts until now.
export function drawChart(element, rows, note = "") {
  if (!element.firstChild) element.append(h("p.quiet"), h("div.axis.num", h("span"), h("span")), h("ol.bars"));
  const [told, axis, list] = element.children;
  const now = Date.now();
  const times = rows.flatMap(({ parts }) => parts.flatMap(({ from, to }) => [Date.parse(from), to ? Date.parse(to) : now]));
  setText(told, rows.length ? note : "Nothing has begun yet.");
  axis.hidden = !rows.length;
  if (!rows.length) return list.replaceChildren();
  const begin = Math.min(...times);
  const length = Math.max(1000, Math.max(...times) - begin);
  setText(axis.firstChild, moment(new Date(begin).toISOString()));
  setText(axis.lastChild, `${moment(new Date(begin + length).toISOString())} (${duration(length)})`);
  fill(list, rows.map(({ name, href, parts }) => h("li", href ? link(href, name) : h("span", name), h("div.track", parts.map(({ from, to, status, word = status.toLowerCase() }) => {
    const [start, end] = [Date.parse(from), to ? Date.parse(to) : now];
    return h("i", {
      dataset: { status }, title: `${name} ${word}: ${duration(end - start)}`,
      style: { left: `${100 * (start - begin) / length}%`, width: `${Math.max(0.3, 100 * (end - start) / length)}%` },
    });
  })))));
}

// Columns, newest last: {title, value, status}; a value may be null. `none`: said where no value is known.
export function drawColumns(element, columns, unit, none) {
  const most = Math.max(0, ...columns.map(({ value }) => value ?? 0));
  const known = columns.some(({ value }) => value !== null);
  fill(element, [h("p.quiet.num", known ? `highest: ${unit(most)}` : none), known && h("div.columns-of", columns.map(({ title, value, status }) => h("i", {
    title: `${title}: ${value === null ? "nothing reported" : unit(value)}`, dataset: { status }, style: { height: `${Math.max(3, 100 * (value ?? 0) / (most || 1))}%` },
  })))]);
}
