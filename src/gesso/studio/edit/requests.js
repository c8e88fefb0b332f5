// @ts-check
/** Requests that fill holes of a text, or rewrite a part of it. */
import { setPath } from "../api/body.js";

const FILL_FIELDS = new Set(["max_tokens", "seed", "temperature", "top_p", "top_k", "min_p"]);
const EDIT_FIELDS = new Set(["max_tokens", "seed"]);
/** A hole as `/v1/fill` reads it. */
export const HOLE = "{{ }}";

/**
 * @param {{model: string, text: string, instruction: string, settings: Record<string, any>}} given
 * @returns {{body: Record<string, any>, left: string[]}} `left` are settings that it has no field for
 */
export function fillRequest({ model, text, instruction, settings }) {
  return withSettings(instruction ? { model, text, instruction } : { model, text }, settings, FILL_FIELDS);
}

/**
 * Asks for a change between two places of a text.
 * @param {{model: string, text: string, instruction: string, start: number, end: number, settings: Record<string, any>}} given
 *   an empty selection is the whole text
 * @returns {{body: Record<string, any>, left: string[], lines: boolean}} `lines`: the whole lines of the selection may
 *   change, because what is selected stands in the text more than once
 */
export function editRequest({ model, text, instruction, start, end, settings }) {
  const { body, left } = withSettings({ model, text, instruction }, settings, EDIT_FIELDS);
  const selected = text.slice(start, end);
  if (selected === "" || selected === text) return { body, left, lines: false };
  if (text.indexOf(selected) === text.lastIndexOf(selected)) {
    return { body: { ...body, match: selected }, left, lines: false };
  }
  const lineOf = (/** @type {number} */ place) => text.slice(0, place).split("\n").length;
  return { body: { ...body, lines: [lineOf(start), lineOf(Math.max(start, end - 1))] }, left, lines: true };
}

/**
 * @param {Record<string, any>} body
 * @param {Record<string, any>} settings
 * @param {Set<string>} fields
 */
function withSettings(body, settings, fields) {
  const left = [];
  for (const [path, value] of Object.entries(settings)) {
    if (fields.has(path) || path.startsWith("diffusion.")) setPath(body, path, value);
    else left.push(path);
  }
  return { body, left };
}
