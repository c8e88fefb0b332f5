// @ts-check
import { button, h } from "../ui/dom.js";
import { codeBlock } from "./markdown.js";

/** @typedef {import("../run/recording.js").Call} Call */
/** @typedef {import("./conversation.js").ToolResult} ToolResult */

/**
 * Definitions of tools from their text.
 * @param {string} text
 * @returns {object[]} empty where there are none
 * @throws {Error} it is no list of definitions
 */
export function toolsOf(text) {
  if (!text.trim()) return [];
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    throw new Error(`The tools are no JSON: ${/** @type {Error} */ (error).message}`);
  }
  if (!Array.isArray(tools)) throw new Error("The tools must be a JSON list of definitions.");
  // A bare function is one as well.
  return tools.map((tool) => (tool && typeof tool === "object" && "name" in tool && !("function" in tool) ? { type: "function", function: tool } : tool));
}

/**
 * The calls of an answer, with fields for what the tools return where that may be given.
 * @param {Call[]} calls
 * @param {((results: ToolResult[]) => void) | null} give
 * @param {string[]} typed what stands in the fields, and is kept there when they are drawn anew
 */
export function callsOf(calls, give, typed) {
  const answered = calls.every((call) => call.id) ? give : null;
  /** @type {HTMLInputElement[]} */
  const fields = [];
  const shown = calls.map((call, number) => {
    const field = h("input", { type: "text", autocomplete: "off", dir: "auto", "aria-label": `Result of ${call.name}, call ${number + 1}`, placeholder: "what the tool returns", value: typed[number], oninput: () => { typed[number] = field.value; } });
    fields.push(field);
    return h("div", { class: "call" }, h("h3", { dir: "auto" }, `Call of ${call.name}`), codeBlock(indented(call.arguments), "json"), answered ? field : null);
  });
  if (!answered || !calls.length) return h("div", {}, shown);
  const send = () => answered(calls.map(({ id = "", name }, number) => ({ id, name, content: fields[number].value })));
  return h("div", {}, shown, h("div", { class: "actions" }, button(calls.length === 1 ? "Give the result" : "Give the results", send, { class: "primary" })));
}

/** @param {ToolResult[]} results */
export function resultsOf(results) {
  const parts = results.map(({ name, content }) => [h("h3", { dir: "auto" }, `Result of ${name}`), h("p", { class: "said", dir: "auto" }, content)]);
  return h("li", { class: "turn user" }, h("h2", {}, "Tools"), parts.flat());
}

/**
 * JSON over several lines; as it is, where it is none.
 * @param {string} text
 */
function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
