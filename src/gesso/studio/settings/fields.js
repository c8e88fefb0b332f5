// @ts-check
/** What the server's table of options says, as fields of a form: which there are, and how their texts become values. */

/**
 * A row of the table, as `GET /v1/options` has it.
 * @typedef {{name: string, field: string, type: string, help: string, group: string, unit?: string, owner?: string,
 *   default: any, unset?: string, minimum?: number, above?: number, maximum?: number, below?: number,
 *   words?: string[]}} OptionRow
 */

/** Fields that are no settings of a conversation: they are parts of what is asked, or the canvas itself sets them. */
const ELSEWHERE = new Set([
  "prediction", "tools", "tool_choice", "parallel_tool_calls", "logprobs", "response_format",
  "diffusion.start_canvas", "diffusion.strength", "diffusion.start_step", "diffusion.canvas",
]);

/** @param {OptionRow} row */
export function isSetting(row) {
  return !ELSEWHERE.has(row.field) && !row.field.startsWith("structured_outputs.");
}

/**
 * The default as a person reads it.
 * @param {OptionRow} row
 */
export function shownDefault(row) {
  if (row.default === null || row.default === undefined) return row.unset || "none";
  if (typeof row.default === "boolean") return row.default ? "on" : "off";
  if (typeof row.default === "object") return Object.keys(row.default).length ? JSON.stringify(row.default) : "none";
  return String(row.default) || "none";
}

/**
 * Bounds, such as `above 0, at most 1`.
 * @param {OptionRow} row
 */
export function shownBounds(row) {
  const parts = [];
  if (row.minimum !== undefined) parts.push(`at least ${row.minimum}`);
  if (row.above !== undefined) parts.push(`above ${row.above}`);
  if (row.maximum !== undefined) parts.push(`at most ${row.maximum}`);
  if (row.below !== undefined) parts.push(`below ${row.below >= 2 ** 53 ? `2^${Math.log2(row.below)}` : row.below}`);
  return parts.join(", ");
}

/**
 * The value that a text stands for.
 * @param {OptionRow} row
 * @param {string} text not empty
 * @returns {any}
 * @throws {Error} it stands for none; the message says what is wanted
 */
export function valueOf(row, text) {
  switch (row.type) {
    case "switch":
      return text === "on";
    case "integer":
    case "number":
      return number(row, text);
    case "integer_or_word":
      return row.words?.includes(text.trim()) ? text.trim() : number({ ...row, type: "integer" }, text);
    case "texts":
      return text.split("\n").filter((line) => line !== "");
    case "json":
      try {
        return JSON.parse(text);
      } catch {
        throw new Error(`${row.name} must be JSON`);
      }
    default:
      return text;
  }
}

/**
 * @param {OptionRow} row
 * @param {string} text
 */
function number(row, text) {
  const value = Number(text);
  const whole = row.type === "number" || Number.isSafeInteger(value);
  const above = (row.minimum === undefined || value >= row.minimum) && (row.above === undefined || value > row.above);
  const below = (row.maximum === undefined || value <= row.maximum) && (row.below === undefined || value < row.below);
  if (text.trim() !== "" && Number.isFinite(value) && whole && above && below) return value;
  const word = row.words?.length ? `${row.words[0]} or ` : "";
  const bounds = shownBounds(row);
  throw new Error(`${row.name} must be ${word}${row.type === "integer" ? "a whole number" : "a number"}${bounds && `, ${bounds}`}`);
}

/**
 * The text that stands for a value; the other way of `valueOf`.
 * @param {OptionRow} row
 * @param {any} value
 */
export function textOf(row, value) {
  if (row.type === "switch") return value ? "on" : "off";
  if (row.type === "texts") return [value].flat().join("\n");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
