// @ts-check
import { figuresAt, mean, passesOf } from "../run/figures.js";
import { h } from "../ui/dom.js";

/** @typedef {import("../run/recording.js").Recording} Recording */

/**
 * What two answers have in common and what not, row by row.
 * @param {Recording} left
 * @param {Recording} right
 */
export function differencesOf(left, right) {
  const rows = [...figureRows(left, right), ...settingRows(left.body ?? {}, right.body ?? {})];
  const heads = ["", "Left", "Right", "Right against left"].map((text) => (text ? h("th", { scope: "col" }, text) : h("td")));
  const body = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), cells.map((cell) => h("td", { dir: "auto" }, cell))));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Differences" }, h("table", {}, h("caption", {}, "Differences"), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body)));
}

/**
 * @param {Recording} left
 * @param {Recording} right
 * @returns {string[][]}
 */
function figureRows(left, right) {
  /** @type {[string, (recording: Recording) => number | null, number][]} */
  const figures = [
    ["Tokens", (one) => one.result?.completion_tokens ?? null, 0],
    ["Passes of the model", passesOf, 0],
    ["Tokens a pass", (one) => (one.result ? one.result.completion_tokens / Math.max(1, passesOf(one)) : null), 2],
    ["Canvases", (one) => (one.tokenByToken ? null : one.result?.denoising_steps.length ?? null), 0],
    ["Seconds", (one) => one.result?.seconds ?? null, 2],
    ["Seconds to the first text", (one) => one.blocks[0]?.seconds ?? null, 2],
    ["Tokens a second", (one) => (one.result?.seconds ? one.result.completion_tokens / one.result.seconds : null), 1],
    ["Mean entropy at the end (nats)", (one) => { const last = one.frames.at(-1); return last ? mean(last.entropy) : null; }, 3],
    ["Accepted at the end", (one) => { const last = one.frames.length - 1; return last < 0 ? null : figuresAt(one, last).accepted; }, 0],
  ];
  const rows = figures.map(([name, take, digits]) => {
    const [one, other] = [take(left), take(right)];
    return [name, shown(one, digits), shown(other, digits), change(one, other, digits)];
  });
  const place = firstDifference(left, right);
  const same = place === null ? "the same tokens" : `from token ${place + 1} on`;
  return [["Ended by", left.result?.finish_reason ?? "", right.result?.finish_reason ?? "", ""], ["Answer", "", "", same], ...rows];
}

/**
 * Where two answers part.
 * @param {Recording} left
 * @param {Recording} right
 * @returns {number | null} null where they do not
 */
export function firstDifference(left, right) {
  const [one, other] = [left, right].map((recording) => recording.blocks.flatMap((block) => block.tokens));
  const length = Math.max(one.length, other.length);
  for (let place = 0; place < length; place++) if (one[place] !== other[place]) return place;
  return null;
}

/**
 * Fields of the requests that are not the same.
 * @param {Record<string, any>} left
 * @param {Record<string, any>} right
 * @returns {string[][]}
 */
function settingRows(left, right) {
  const [one, other] = [left, right].map((body) => flat(body));
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((name) => one[name] !== other[name]);
  return names.map((name) => [name, one[name] ?? "the server's own", other[name] ?? "the server's own", ""]);
}

/**
 * @param {Record<string, any>} body
 * @returns {Record<string, string>}
 */
function flat(body) {
  const { diffusion = {}, messages: _, ...rest } = body;
  const named = Object.entries(diffusion).map(([name, value]) => [`diffusion.${name}`, JSON.stringify(value)]);
  return Object.fromEntries([...Object.entries(rest).map(([name, value]) => [name, JSON.stringify(value)]), ...named]);
}

/**
 * @param {number | null} number
 * @param {number} digits
 */
function shown(number, digits) {
  return number === null ? "none" : number.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/**
 * @param {number | null} one
 * @param {number | null} other
 * @param {number} digits
 */
function change(one, other, digits) {
  if (one === null || other === null) return "";
  const difference = shown(Math.abs(other - one), digits);
  const sign = other > one ? "+" : other < one ? "\u2212" : "\u00b1";
  return `${sign}${difference}${one > 0 && other > 0 ? ` (${(other / one).toFixed(2)}\u00d7)` : ""}`;
}
