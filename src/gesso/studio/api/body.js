// @ts-check
/** Requests of chat completions: their bodies, and the same as curl and as Python. */

/** @typedef {{type: "text", text: string} | {type: "image_url", image_url: {url: string}}} Part */
/** @typedef {{role: string, content: string | Part[] | null, name?: string, tool_calls?: object[], tool_call_id?: string}} Message */
/** @typedef {Record<string, any>} Body */

/**
 * Sets the value at a path such as `diffusion.entropy_bound`.
 * @param {Body} body
 * @param {string} path
 * @param {any} value
 */
export function setPath(body, path, value) {
  const names = path.split(".");
  const last = /** @type {string} */ (names.pop());
  let place = body;
  for (const name of names) place = place[name] ??= {};
  place[last] = value;
}

/**
 * The body of a request.
 * @param {{model: string, messages: Message[], settings?: Record<string, any>}} request `settings` by the paths of fields
 * @returns {Body}
 */
export function chatBody({ model, messages, settings = {} }) {
  /** @type {Body} */
  const body = { model, messages };
  for (const [path, value] of Object.entries(settings)) if (value !== undefined) setPath(body, path, value);
  return body;
}

/**
 * The same request, streamed with every step of its canvases.
 * @param {Body} body
 * @returns {Body}
 */
export function streamed(body) {
  return {
    ...body,
    stream: true,
    stream_options: { include_usage: true },
    diffusion: { ...body.diffusion, draft_frames: true },
  };
}

/**
 * A shell command that sends a request. The key is a variable of the shell, never the key.
 * @param {string} address of the server, without a slash at its end
 * @param {Body} body
 * @param {boolean} withKey
 */
export function asCurl(address, body, withKey) {
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  const key = withKey ? ' \\\n  -H "Authorization: Bearer $GESSO_API_KEY"' : "";
  return `curl ${address}/v1/chat/completions -H "Content-Type: application/json"${key} -d '${quoted}'`;
}

/** Fields that the openai package has keywords for; the others go into `extra_body`. */
const KEYWORDS = new Set([
  "model", "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "n", "logit_bias", "frequency_penalty",
  "presence_penalty", "response_format",
  "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "prediction",
]);

/**
 * A Python program that sends a request and prints the answer.
 * @param {string} address
 * @param {Body} body
 * @param {boolean} withKey
 */
export function asPython(address, body, withKey) {
  const known = Object.entries(body).filter(([name]) => KEYWORDS.has(name));
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !KEYWORDS.has(name)));
  const lines = known.map(([name, value]) => `    ${name}=${asLiteral(value, 4)},`);
  if (Object.keys(extra).length) lines.push(`    extra_body=${asLiteral(extra, 4)},`);
  return [
    withKey ? "import os\n" : null,
    "from openai import OpenAI\n",
    `client = OpenAI(base_url=${asLiteral(`${address}/v1`, 0)}, api_key=${withKey ? 'os.environ["GESSO_API_KEY"]' : '"none"'})`,
    "answer = client.chat.completions.create(",
    ...lines,
    ")",
    "print(answer.choices[0].message.content)",
  ].filter((line) => line !== null).join("\n") + "\n";
}

/**
 * A value as Python writes it.
 * @param {any} value
 * @param {number} indent
 * @returns {string}
 */
export function asLiteral(value, indent) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = " ".repeat(indent + 4);
  const parts = Array.isArray(value)
    ? value.map((part) => asLiteral(part, indent + 4))
    : Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}: ${asLiteral(part, indent + 4)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const line = `${open}${parts.join(", ")}${close}`;
  if (line.length + indent <= 100 && !line.includes("\n")) return line;
  return `${open}\n${parts.map((part) => `${inner}${part},`).join("\n")}\n${" ".repeat(indent)}${close}`;
}
