// @ts-check
/** @typedef {import("./recording.js").Recording} Recording */

/** @param {number[]} numbers */
export function mean(numbers) {
  return numbers.length ? numbers.reduce((sum, number) => sum + number, 0) / numbers.length : 0;
}

/**
 * Where an answer stood at one of its frames.
 * @param {Recording} recording
 * @param {number} index
 */
export function figuresAt(recording, index) {
  const frame = recording.frames[index];
  const committed = recording.blocks.slice(0, frame.blocks);
  const done = committed.reduce((sum, block) => sum + block.tokens.length, 0);
  const texts = frame.tokens.filter((token) => !recording.special.has(token)).length;
  const shown = Math.min(frame.tokens.length, texts + 1); // the token that ends an answer counts, what fills it up does not
  // Frames may be missing where the page was slow, so a canvas's passes are its step, not how many were seen. Passes
  // that show nothing, which verify it, count with its last frame.
  const own = recording.frames[index + 1]?.blocks === frame.blocks ? undefined : recording.blocks[frame.blocks];
  const passes = committed.reduce((sum, block) => sum + block.denoising_steps, 0) + (own?.denoising_steps ?? frame.step);
  return {
    canvas: frame.canvas + 1,
    step: frame.step,
    steps: frame.max_denoising_steps,
    temperature: frame.temperature,
    entropy: mean(frame.entropy),
    accepted: frame.accepted.filter(Boolean).length,
    width: frame.tokens.length,
    rate: frame.seconds > 0 ? (done + shown) / frame.seconds : 0,
    passes,
    tokens: done + shown,
    saved: done + shown - passes,
  };
}

/**
 * Mean entropy and the share of accepted positions, step by step over all canvases.
 * @param {Recording} recording
 * @returns {{entropy: number[], accepted: number[]}}
 */
export function byStep(recording) {
  return {
    entropy: recording.frames.map((frame) => mean(frame.entropy)),
    accepted: recording.frames.map((frame) => mean(frame.accepted)),
  };
}

/** @param {Recording} recording */
export function passesOf(recording) {
  return (recording.result?.denoising_steps ?? []).reduce((sum, steps) => sum + steps, 0);
}

/**
 * How a finished answer came about, in a few words each.
 * @param {Recording} recording
 * @returns {string[]}
 */
export function summaryOf(recording) {
  const { result } = recording;
  if (!result) return [];
  const passes = passesOf(recording);
  const rate = result.seconds > 0 ? result.completion_tokens / result.seconds : 0;
  const canvases = [count(result.denoising_steps.length, "canvas", "canvases"), count(passes, "pass", "passes"), saved(result.completion_tokens - passes)];
  return [
    count(result.completion_tokens, "token"),
    ...(recording.tokenByToken ? ["token by token"] : canvases),
    `${rate.toFixed(0)} tokens/s`,
    `seed ${result.seed}`,
    result.finish_reason,
  ];
}

/**
 * Passes fewer than token by token, which takes one for each.
 * @param {number} passes
 */
export function saved(passes) {
  return passes >= 0 ? `${count(passes, "pass", "passes")} saved` : `${count(-passes, "pass", "passes")} more than tokens`;
}

/**
 * @param {number} number
 * @param {string} one
 * @param {string} [many]
 */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
