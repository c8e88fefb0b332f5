// @ts-check
import { copyFor } from "../ui/copy.js";
import { button, h } from "../ui/dom.js";
import { highlighted } from "./highlight.js";
import { inline } from "./inline.js";

/**
 * Markdown as elements: headings, lists, quotes, tables, code. A model's text is only ever text in them.
 * @param {string} text
 * @param {number} [depth]
 * @returns {HTMLElement[]}
 */
export function markdown(text, depth = 0) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  /** @type {HTMLElement[]} */
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    const rule = lines[at].trim() === "" ? null : RULES.find((candidate) => candidate.begins(lines, at, depth));
    if (lines[at].trim() === "") at++;
    else if (rule) at = rule.take(lines, at, blocks, depth);
    else at = paragraph(lines, at, blocks, depth);
  }
  return blocks;
}

/** @typedef {{begins: (lines: string[], at: number, depth: number) => boolean,
 *   take: (lines: string[], at: number, blocks: HTMLElement[], depth: number) => number}} Rule */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 6;
/** Stands for a bar that is text of a cell. */
const BAR = "\0";

/** @type {Rule[]} */
const RULES = [
  { begins: (lines, at) => FENCE.test(lines[at]), take: fence },
  { begins: (lines, at) => HEADING.test(lines[at]), take: heading },
  { begins: (lines, at) => /^\s*([-*_])(\s*\1){2,}\s*$/.test(lines[at]), take: (_, at, blocks) => (blocks.push(h("hr")), at + 1) },
  { begins: (lines, at, depth) => depth < DEEPEST && /^\s*>/.test(lines[at]), take: quote },
  { begins: (lines, at, depth) => depth < DEEPEST && ITEM.test(lines[at]), take: list },
  { begins: (lines, at) => lines[at].includes("|") && DIVIDER.test(lines[at + 1] ?? "") && (lines[at + 1] ?? "").includes("-"), take: table },
];

/** @type {Rule["take"]} */
function fence(lines, at, blocks) {
  const [, marks, language] = /** @type {RegExpExecArray} */ (FENCE.exec(lines[at]));
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(marks)) end++;
  blocks.push(codeBlock(lines.slice(at + 1, end).join("\n"), language));
  return end + 1;
}

/**
 * A block of code with a button that copies it.
 * @param {string} code
 * @param {string} language
 */
export function codeBlock(code, language) {
  const shown = h("code", {}, highlighted(code, language));
  const copy = button("Copy", () => void copyFor(copy, shown.textContent ?? "")); // it grows with an answer
  return h(
    "div", { class: "code" }, h("div", { class: "code-head" }, h("span", {}, language || "code"), copy),
    h("pre", { tabindex: "0" }, shown),
  );
}

/** @type {Rule["take"]} */
function heading(lines, at, blocks) {
  const [, marks, text] = /** @type {RegExpExecArray} */ (HEADING.exec(lines[at]));
  // The page has headings of its own; those of an answer stand below them.
  const level = /** @type {"h3" | "h4" | "h5" | "h6"} */ (`h${Math.min(6, marks.length + 2)}`);
  blocks.push(h(level, { dir: "auto" }, inline(text)));
  return at + 1;
}

/** @type {Rule["take"]} */
function quote(lines, at, blocks, depth) {
  let end = at;
  while (end < lines.length && /^\s*>/.test(lines[end])) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(/^\s*> ?/, "")).join("\n");
  blocks.push(h("blockquote", {}, markdown(inner, depth + 1)));
  return end;
}

/** @type {Rule["take"]} */
function list(lines, at, blocks, depth) {
  const [, indent, marker] = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = /\d/.test(marker);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || found[1].length !== indent.length || /\d/.test(found[2]) !== ordered) break;
    const inner = [found[3]];
    // What is indented farther belongs to the item.
    for (end++; end < lines.length && lines[end].trim() !== "" && depthOf(lines[end]) > indent.length; end++) {
      inner.push(lines[end].slice(indent.length + 2).replace(/^ (?=\S)/, ""));
    }
    const [first, ...rest] = inner;
    items.push(h("li", {}, inline(first), rest.length ? markdown(rest.join("\n"), depth + 1) : null));
  }
  // The list has the direction and not its items, as their signs stand in its margin.
  blocks.push(ordered ? h("ol", { start: parseInt(marker, 10), dir: "auto" }, items) : h("ul", { dir: "auto" }, items));
  return end;
}

/** @param {string} line */
function depthOf(line) {
  return line.length - line.trimStart().length;
}

/** @type {Rule["take"]} */
function table(lines, at, blocks) {
  const cells = (/** @type {string} */ line) => line.trim().replaceAll("\\|", BAR).replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim().replaceAll(BAR, "|"));
  const heads = cells(lines[at]).map((cell) => h("th", { scope: "col", dir: "auto" }, inline(cell)));
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end++) {
    rows.push(h("tr", {}, cells(lines[end]).map((cell) => h("td", { dir: "auto" }, inline(cell)))));
  }
  blocks.push(h("div", { class: "wide", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))));
  return end;
}

/** @type {Rule["take"]} */
function paragraph(lines, at, blocks, depth) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !RULES.some((rule) => rule.begins(lines, end, depth))) end++;
  // Ends of lines and blanks at their beginnings stay: an answer may be code without a fence.
  const parts = lines.slice(at, end).flatMap((line, number) => (number ? ["\n", ...inline(line)] : inline(line)));
  blocks.push(h("p", { dir: "auto" }, parts));
  return end;
}
