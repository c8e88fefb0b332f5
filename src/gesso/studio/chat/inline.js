// @ts-check
import { h } from "../ui/dom.js";

const DEEPEST = 8;
const SAFE = /^(https?:|mailto:)/i;
/**
 * Marks that are meant as they are, code, links, and the marks of emphasis with what they enclose; each ends in the line
 * it begins in. Addresses have parentheses in pairs, and a sentence ends behind them.
 */
const PATTERN = new RegExp([
  /\\(?<escaped>[*_`~|#$])/,
  /(?<ticks>`+)(?<code>[^`]|[^`][^\n]*?[^`])\k<ticks>(?!`)/,
  /!?\[(?<label>[^\][\n]{0,500})\]\((?<target>(?:[^()\s]|\([^()\s]*\)){1,2000})\)/,
  /(?<bare>https?:\/\/(?:[^\s<>()"']|\([^\s<>()"']*\)){0,2000}(?:[^\s<>()"'.,;:!?*_~]|\([^\s<>()"']*\)))/,
  /(?<mark>\*{1,3}|__|~~|_)(?=\S)(?<inner>[^\n]{1,2000}?\S|\S)\k<mark>(?!\w)/,
].map(({ source }) => source).join("|"), "g");
const TAGS = /** @type {const} */ ({ "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" });

/**
 * A line of Markdown as nodes. Whatever is no Markdown, HTML included, is text.
 * @param {string} text
 * @param {number} [depth]
 * @returns {(Node | string)[]}
 */
export function inline(text, depth = 0) {
  if (depth > DEEPEST) return [text];
  /** @type {(Node | string)[]} */
  const parts = [];
  let place = 0;
  for (const found of text.matchAll(PATTERN)) {
    const node = made(/** @type {Record<string, string | undefined>} */ (found.groups), text[found.index - 1] ?? "", depth);
    if (!node) continue;
    if (found.index > place) parts.push(text.slice(place, found.index));
    parts.push(node);
    place = found.index + found[0].length;
  }
  parts.push(text.slice(place));
  return parts;
}

/**
 * @param {Record<string, string | undefined>} groups
 * @param {string} before the character before it
 * @param {number} depth
 * @returns {Node | string | null}
 */
function made(groups, before, depth) {
  if (groups.escaped !== undefined) return groups.escaped;
  if (groups.code !== undefined) return h("code", {}, groups.code);
  if (groups.target !== undefined) {
    const label = groups.label || groups.target;
    // A picture is a link to it: the page loads nothing from anywhere.
    return SAFE.test(groups.target) ? link(groups.target, inline(label, depth + 1)) : null;
  }
  if (groups.bare !== undefined) return link(groups.bare, [groups.bare]);
  if (groups.mark === "***") return h("strong", {}, h("em", {}, inline(groups.inner ?? "", depth + 1)));
  const mark = /** @type {keyof typeof TAGS} */ (groups.mark);
  if (mark.startsWith("_") && /\w/.test(before)) return null; // snake_case
  return h(TAGS[mark], {}, inline(groups.inner ?? "", depth + 1));
}

/**
 * @param {string} address
 * @param {(Node | string)[]} label
 */
function link(address, label) {
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer", title: address }, label);
}
