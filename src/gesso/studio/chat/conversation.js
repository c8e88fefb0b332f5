// @ts-check
/** The state of a conversation: what was said, and every answer that was tried. It draws nothing and asks nobody. */

/** @typedef {import("../run/recording.js").Recording} Recording */
/** @typedef {"running" | "done" | "stopped" | "failed"} State */
/** @typedef {{recording: Recording, state: State, error: string}} Variant */
/** @typedef {{role: "user", text: string} | {role: "assistant", variants: Variant[], chosen: number}} Turn */
/** @typedef {import("../api/body.js").Message} Message */

export class Conversation {
  constructor() {
    /** @type {Turn[]} */
    this.turns = [];
  }

  /**
   * Adds what the person says, with an answer to come.
   * @param {string} text
   * @returns {number} of the answer's turn
   */
  ask(text) {
    this.turns.push({ role: "user", text }, { role: "assistant", variants: [], chosen: 0 });
    return this.turns.length - 1;
  }

  /**
   * Says something else in the place of an earlier message; what came after it goes.
   * @param {number} turn
   * @param {string} text
   * @returns {number} of the answer's turn
   */
  edit(turn, text) {
    this.turns.length = turn;
    return this.ask(text);
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
   * The messages before a turn, as the API takes them.
   * @param {number} turn
   * @param {string} system
   * @returns {Message[]}
   */
  before(turn, system) {
    /** @type {Message[]} */
    const messages = system ? [{ role: "system", content: system }] : [];
    for (const part of this.turns.slice(0, turn)) {
      if (part.role === "user") messages.push({ role: "user", content: part.text });
      else messages.push({ role: "assistant", content: part.variants[part.chosen]?.recording.text ?? "" });
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
