// @ts-check
/** The state of a conversation: what was said, and every answer that was tried. It draws nothing and asks nobody. */

/** @typedef {import("../run/recording.js").Recording} Recording */
/** @typedef {"running" | "done" | "stopped" | "failed"} State */
/** @typedef {{recording: Recording, state: State, error: string}} Variant */
/** @typedef {{name: string, url: string}} Picture `url` holds the picture itself */
/** @typedef {{text: string, strength: number}} Start what canvases start from, and how much of it noise takes the place of */
/** @typedef {{id: string, name: string, content: string}} ToolResult */
/**
 * @typedef {{role: "user", text: string, pictures: Picture[]} | {role: "tool", results: ToolResult[]} |
 *   {role: "assistant", variants: Variant[], chosen: number, start: Start | null}} Turn
 */
/** @typedef {import("../api/body.js").Message} Message */

export class Conversation {
  constructor() {
    /** @type {Turn[]} */
    this.turns = [];
    /** Those of the conversation before, until something is said in this one. @type {Turn[]} */
    this.aside = [];
  }

  /** Begins a new conversation, and lays this one aside; goes back to that one where nothing was said since. */
  exchange() {
    [this.turns, this.aside] = [this.aside, this.turns];
  }

  /**
   * Adds what the person says, with an answer to come.
   * @param {string} text
   * @param {Picture[]} [pictures]
   * @param {Start | null} [start]
   * @returns {number} of the answer's turn
   */
  ask(text, pictures = [], start = null) {
    this.aside = [];
    this.turns.push({ role: "user", text, pictures });
    return this.#answer(start);
  }

  /**
   * Adds what the tools returned that the last answer calls, with an answer to come.
   * @param {ToolResult[]} results
   * @returns {number} of the answer's turn
   */
  giveResults(results) {
    this.turns.push({ role: "tool", results });
    return this.#answer(null);
  }

  /** @param {Start | null} start */
  #answer(start) {
    this.turns.push({ role: "assistant", variants: [], chosen: 0, start });
    return this.turns.length - 1;
  }

  /** The last answer, of which a follow-up may start; empty where there is none. */
  get lastText() {
    const last = this.turns.at(-1);
    return last?.role === "assistant" ? last.variants[last.chosen]?.recording.text ?? "" : "";
  }

  /**
   * Says something else in the place of an earlier message; what came after it goes.
   * @param {number} turn
   * @param {string} text
   * @returns {number} of the answer's turn
   */
  edit(turn, text) {
    const old = this.turns[turn];
    this.turns.length = turn;
    return this.ask(text, old?.role === "user" ? old.pictures : []);
  }

  /**
   * Begins another answer; what came after it goes.
   * @param {number} turn
   * @param {Recording} recording
   * @returns {Variant}
   */
  begin(turn, recording) {
    this.turns.length = turn + 1;
    const answer = this.turns[turn];
    if (answer.role !== "assistant") throw new Error(`turn ${turn} is no answer`);
    /** @type {Variant} */
    const variant = { recording, state: "running", error: "" };
    answer.variants.push(variant);
    answer.chosen = answer.variants.length - 1;
    return variant;
  }

  /**
   * The messages before a turn, as the API takes them. What was said for an answer that failed is left out with it: it
   * may be why, and would be so again.
   * @param {number} turn
   * @param {string} system
   * @returns {Message[]}
   */
  before(turn, system) {
    /** @type {Message[]} */
    const messages = system ? [{ role: "system", content: system }] : [];
    for (const part of this.turns.slice(0, turn)) {
      if (part.role === "user") messages.push(userMessage(part.text, part.pictures));
      else if (part.role === "tool") messages.push(...part.results.map(({ id, name, content }) => ({ role: "tool", tool_call_id: id, name, content })));
      else if (part.variants[part.chosen]?.state === "failed") forgetQuestion(messages);
      else messages.push(assistantMessage(part.variants[part.chosen]?.recording));
    }
    return messages;
  }

  /** All answers, the oldest first. */
  get recordings() {
    return this.turns.flatMap((turn) => (turn.role === "assistant" ? turn.variants.map((variant) => variant.recording) : []));
  }

  /**
   * Lets the steps of the oldest answers go until all together hold at most `positions`.
   * @param {number} positions
   */
  shrink(positions) {
    const all = this.recordings;
    let total = all.reduce((sum, recording) => sum + recording.size, 0);
    for (const recording of all.slice(0, -1)) {
      if (total <= positions) return;
      total -= recording.size;
      if (recording.frames.length) recording.forget();
    }
  }
}

/**
 * A message of the person as the API takes it.
 * @param {string} text
 * @param {Picture[]} pictures stand before the text
 * @returns {Message}
 */
export function userMessage(text, pictures) {
  if (!pictures.length) return { role: "user", content: text };
  const parts = pictures.map(({ url }) => /** @type {const} */ ({ type: "image_url", image_url: { url } }));
  return { role: "user", content: [...parts, { type: "text", text }] };
}

/**
 * Takes away the last message of the person, and what tools returned since.
 * @param {Message[]} messages
 */
function forgetQuestion(messages) {
  const asked = messages.findLastIndex(({ role }) => role === "user");
  if (asked >= 0) messages.length = asked;
}

/**
 * @param {Recording | undefined} recording
 * @returns {Message}
 */
function assistantMessage(recording) {
  const calls = (recording?.result?.calls ?? []).filter((call) => call.id);
  const content = recording?.text ?? "";
  if (!calls.length) return { role: "assistant", content };
  const told = calls.map(({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: given } }));
  return { role: "assistant", content: content || null, tool_calls: told };
}
