// @ts-check
import { h } from "../ui/dom.js";

/** Certainty by entropy, as everywhere in gesso: below so many nats, this name. */
export const BANDS = /** @type {const} */ ([[0.05, "sure"], [0.5, "likely"], [1.5, "open"], [Infinity, "noise"]]);

/** @param {number} entropy nats */
export function bandOf(entropy) {
  for (const [bound, name] of BANDS) if (entropy < bound) return name;
  return "noise";
}

const MARKS = /** @type {const} */ ([
  ["accepted", "accepted: stays for the next step"],
  ["redrawn", "drawn anew in the next step"],
  ["renoised", "was accepted, is noise again"],
  ["changed", "another token than a step ago"],
  ["pinned", "held"],
  ["forced", "the constraint leaves one text"],
]);

/** What colours, patterns and lines mean. */
export function legend() {
  const bands = BANDS.map(([bound, name], number) => {
    const range = number === 0 ? `below ${bound}` : `${BANDS[number - 1][0]}${bound === Infinity ? " and above" : ` to ${bound}`}`;
    return h("li", {}, h("span", { class: `cell ${name} accepted`, "aria-hidden": "true" }, "abc"), ` ${name}, ${range} nats`);
  });
  const marks = MARKS.map(([name, meaning]) => h("li", {}, h("span", { class: `cell ${name}`, "aria-hidden": "true" }, "abc"), ` ${meaning}`));
  return h("details", { class: "legend" }, h("summary", {}, "What the colours and lines mean"), h("ul", {}, bands, marks));
}
