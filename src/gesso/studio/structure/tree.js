// @ts-check
import { h } from "../ui/dom.js";

/** Entries of one object or array that are shown. */
const SHOWN = 500;
/** Levels that are open at first. */
const OPEN = 3;

/**
 * A JSON value as a tree that can be folded.
 * @param {any} value
 */
export function tree(value) {
  return h("ul", { class: "tree", "aria-label": "Answer as a tree" }, node(null, value, 0));
}

/**
 * @param {string | null} name
 * @param {any} value
 * @param {number} depth
 * @returns {HTMLElement}
 */
function node(name, value, depth) {
  const label = name === null ? null : h("span", { class: "tree-name", dir: "auto" }, `${name}: `);
  if (value === null || typeof value !== "object") {
    return h("li", {}, label, h("span", { class: `tree-${value === null ? "null" : typeof value}`, dir: "auto" }, JSON.stringify(value)));
  }
  const list = Array.isArray(value);
  const entries = list ? value.map((part, place) => /** @type {[string, any]} */ ([String(place), part])) : Object.entries(value);
  const kind = list ? `array of ${entries.length}` : `object of ${entries.length}`;
  if (!entries.length) return h("li", {}, label, h("span", { class: "dim" }, kind));
  const parts = entries.slice(0, SHOWN).map(([key, part]) => node(key, part, depth + 1));
  const more = entries.length > SHOWN && h("li", { class: "dim" }, `and ${entries.length - SHOWN} more`);
  return h("li", {}, h("details", { open: depth < OPEN }, h("summary", {}, label, h("span", { class: "dim" }, kind)), h("ul", {}, parts, more)));
}
