// @ts-check
/** What an answer is held to, as a person writes it and as the API takes it. */

/** @typedef {"json" | "regex" | "grammar" | "choice"} Kind */

/** @type {Record<Kind, {name: string, help: string, example: string}>} */
export const KINDS = {
  json: {
    name: "JSON Schema",
    help: "The answer is JSON that validates: one line, properties in the order of the schema.",
    example: JSON.stringify({
      type: "object",
      properties: { item: { type: "string" }, price: { type: "integer" }, city: { type: "string" } },
      required: ["item", "price", "city"],
    }, null, 2),
  },
  regex: { name: "Regular expression", help: "The whole answer matches it.", example: "[0-9]{1,4}" },
  grammar: {
    name: "Grammar", help: "Rules of the form name ::= ..., beginning with root.",
    example: 'root ::= sum " = " number\nsum ::= number " + " number\nnumber ::= [0-9]{1,4}',
  },
  choice: { name: "Choices, one a line", help: "The answer is one of these.", example: "yes\nno\nperhaps" },
};

/**
 * The field `structured_outputs` of a request.
 * @param {Kind} kind
 * @param {string} text
 * @returns {Record<string, any>}
 * @throws {Error} a schema that is no JSON
 */
export function outputsOf(kind, text) {
  if (kind === "regex" || kind === "grammar") return { [kind]: text };
  if (kind === "choice") return { choice: text.split("\n").filter((line) => line !== "") };
  let schema;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw new Error(`The schema is no JSON: ${/** @type {Error} */ (error).message}`);
  }
  if (schema === null || typeof schema !== "object" || Array.isArray(schema)) throw new Error("The schema must be a JSON object.");
  return { json: schema };
}
