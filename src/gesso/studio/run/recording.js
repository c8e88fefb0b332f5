// @ts-check
/** One answer as it came about: every step of every canvas, what each canvas added, and how it ended. */

/**
 * The canvas after a step. Lists have an entry for each position.
 * @typedef {object} Frame
 * @property {number} seconds since the request was sent
 * @property {number} blocks canvases that were finished before it
 * @property {number} canvas
 * @property {number} step
 * @property {number} max_denoising_steps
 * @property {number} temperature
 * @property {number[]} tokens
 * @property {string[]} pieces
 * @property {number[]} accepted
 * @property {number[]} entropy nats
 * @property {number[]} canvas_tokens what the next step starts from; empty in old traces
 * @property {number[]} pinned empty where nothing is
 * @property {number[]} forced empty where nothing is
 */
/** @typedef {{seconds: number, canvas: number, tokens: number[], text: string, reasoning: string,
 *   denoising_steps: number, converged: boolean}} Block */
/** @typedef {{id?: string, name: string, arguments: string}} Call `id` is empty where a trace holds it */
/** @typedef {{finish_reason: string, seed: number, prompt_tokens: number, completion_tokens: number,
 *   denoising_steps: number[], converged: boolean[], tokens_per_forward: number, seconds: number,
 *   cached_tokens: number, reasoning_tokens: number, warnings: string[], calls: Call[],
 *   report: Record<string, any>}} Result */

/** Holds one answer while it comes and after. */
export class Recording {
  /**
   * @param {{model: string, prompt: string, special: Iterable<number>, body?: Record<string, any> | null}} given
   */
  constructor({ model, prompt, special, body = null }) {
    this.model = model;
    this.prompt = prompt;
    /** Ids of tokens that are no text. */
    this.special = new Set(special);
    /** The request, where it is known. */
    this.body = body;
    /** @type {Frame[]} */
    this.frames = [];
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {Result | null} */
    this.result = null;
    /** Whether its frames were let go to keep memory bounded. */
    this.forgotten = false;
    /** Whether frames have come: an answer that is written token by token has none. */
    this.drafted = false;
  }

  /**
   * @param {Record<string, any>} draft as the API has it
   * @param {number} seconds
   */
  addFrame(draft, seconds) {
    /** @type {any} */
    const optional = { canvas_tokens: [], pinned: [], forced: [] };
    this.drafted = true;
    this.frames.push({ ...optional, ...draft, seconds, blocks: this.blocks.length });
  }

  /**
   * @param {Record<string, any>} block
   * @param {number} seconds
   */
  addBlock(block, seconds) {
    this.blocks.push(/** @type {Block} */ ({ ...block, seconds }));
  }

  /** Whether it is written token by token, without a canvas, as far as can be seen by now. */
  get tokenByToken() {
    return !this.drafted && (this.blocks.length > 0 || this.body?.diffusion?.mode === "ar");
  }

  get text() {
    return this.blocks.map((block) => block.text).join("");
  }

  get reasoning() {
    return this.blocks.map((block) => block.reasoning).join("");
  }

  /** Positions that all frames hold together: what they take of memory. */
  get size() {
    return this.frames.reduce((sum, frame) => sum + frame.tokens.length, 0);
  }

  forget() {
    this.frames = [];
    this.forgotten = true;
  }

  /** All but the frames, and the tokens that only they name. */
  toJSON() {
    return { ...this, frames: [], special: [], forgotten: this.forgotten || this.frames.length > 0 };
  }

  /**
   * A recording of what its `toJSON` gave.
   * @param {ReturnType<Recording["toJSON"]>} plain
   */
  static from(plain) {
    return Object.assign(new Recording(plain), plain, { special: new Set(plain.special) });
  }
}

/**
 * The frame before this one of the same canvas; null for the first.
 * @param {Recording} recording
 * @param {number} index
 * @returns {Frame | null}
 */
export function frameBefore(recording, index) {
  const before = recording.frames[index - 1];
  return before && before.canvas === recording.frames[index].canvas ? before : null;
}

/**
 * What a step made of a position.
 * @param {Frame} frame
 * @param {Frame | null} before
 * @param {number} position
 */
export function marksOf(frame, before, position) {
  const accepted = frame.accepted[position] === 1;
  return {
    accepted,
    renoised: !accepted && before !== null && before.accepted[position] === 1,
    changed: before !== null && before.tokens[position] !== frame.tokens[position],
    pinned: frame.pinned[position] === 1,
    forced: frame.forced[position] === 1,
  };
}

/** @typedef {{index: number, step: number, token: number, piece: string, entropy: number, accepted: boolean}} Moment */

/**
 * What a position of a canvas held, step by step, up to a frame, and since which step it has held what it holds then.
 * @param {Recording} recording
 * @param {number} index
 * @param {number} position
 * @returns {{moments: Moment[], settled: number}}
 */
export function historyOf(recording, index, position) {
  const { canvas } = recording.frames[index];
  /** @type {Moment[]} */
  const moments = [];
  let settled = 0;
  for (let at = 0; at <= index; at++) {
    const frame = recording.frames[at];
    if (frame.canvas !== canvas || position >= frame.tokens.length) continue;
    const last = moments.at(-1);
    if (!last || last.token !== frame.tokens[position]) settled = frame.step;
    moments.push({
      index: at,
      step: frame.step,
      token: frame.tokens[position],
      piece: frame.pieces[position],
      entropy: frame.entropy[position],
      accepted: frame.accepted[position] === 1,
    });
  }
  return { moments, settled };
}
