// @ts-check
import { h } from "../ui/dom.js";

/** Entries of one object or array that are shown. */
const SHOWN = 500;
/** Levels that are open at first. */
const OPEN = 3;
/** Levels that are drawn at all: a model under a constraint may open brackets by the thousand. */
const DEEPEST = 100;

/** A number as it is written, which may have more digits than a number here. */
class Written {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }
}

/**
 * A text as the value that `tree` takes; null where it is no JSON, or no object and no array.
 * @param {string} text
 * @returns {any}
 */
export function valueIn(text) {
  try {
    const value = JSON.parse(text);
    return value === null || typeof value !== "object" ? null : asWritten(text, value);
  } catch {
    return null;
  }
}

/**
 * The value with its numbers as they are written, where the browser tells that.
 * @param {string} text
 * @param {any} value
 */
function asWritten(text, value) {
  const keep = (/** @type {string} */ _, /** @type {any} */ part, /** @type {{source?: string}} */ context) =>
    typeof part === "number" && context?.source ? new Written(context.source) : part;
  try {
    return JSON.parse(text, /** @type {any} */ (keep));
  } catch {
    return value; // too deep to be gone through
  }
}

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
  if (value instanceof Written) return h("li", {}, label, h("span", { class: "tree-number", dir: "auto" }, value.source));
  if (value === null || typeof value !== "object") {
    return h("li", {}, label, h("span", { class: `tree-${value === null ? "null" : typeof value}`, dir: "auto" }, JSON.stringify(value)));
  }
  const list = Array.isArray(value);
  const entries = list ? value.map((part, place) => /** @type {[string, any]} */ ([String(place), part])) : Object.entries(value);
  const kind = list ? `array of ${entries.length}` : `object of ${entries.length}`;
  if (!entries.length) return h("li", {}, label, h("span", { class: "dim" }, kind));
  if (depth === DEEPEST) return h("li", {}, label, h("span", { class: "dim" }, `${kind} and deeper`));
  const parts = entries.slice(0, SHOWN).map(([key, part]) => node(key, part, depth + 1));
  const more = entries.length > SHOWN && h("li", { class: "dim" }, `and ${entries.length - SHOWN} more`);
  return h("li", {}, h("details", { open: depth < OPEN }, h("summary", {}, label, h("span", { class: "dim" }, kind)), h("ul", {}, parts, more)));
}
