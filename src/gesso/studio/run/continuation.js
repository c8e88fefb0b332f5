// @ts-check
/** Going on from a step of an answer with some of its tokens held: the same request with four fields more. */

/** @typedef {import("./recording.js").Recording} Recording */

/**
 * Why an answer cannot be gone on with from one of its frames; empty where it can.
 * @param {Recording} recording
 * @param {number} index
 * @returns {string}
 */
export function obstacle(recording, index) {
  const frame = recording.frames[index];
  if (!recording.body) return "a trace that another program wrote does not hold the request";
  if (recording.result?.seed === undefined) return "the answer did not come to its end, so its seed is not known";
  if (!frame.canvas_tokens.length) return "this trace does not hold what the next step starts from";
  if (frame.step >= frame.max_denoising_steps) return "no steps are left after the last one: go back a step";
  const first = recording.frames.find((other) => other.canvas === frame.canvas);
  if (first && first.max_denoising_steps !== frame.max_denoising_steps) return "this is a round of verification";
  if (recording.reasoning) return "an answer with reasoning cannot be gone on with";
  if ((recording.body.diffusion?.canvas_width ?? "full") !== "full") return "canvases are of different widths";
  const before = recording.blocks.slice(0, frame.blocks);
  const length = recording.frames[0].tokens.length;
  return before.every((block) => block.tokens.length === length) ? "" : "an earlier canvas is not full";
}

/**
 * The request that goes on.
 * @param {Recording} recording
 * @param {number} index of the frame
 * @param {Map<number, number>} held token ids by position of its canvas
 * @param {number} seed of the answer, so that what is free is drawn as it was
 * @returns {Record<string, any>}
 */
export function continuation(recording, index, held, seed) {
  const frame = recording.frames[index];
  const before = recording.blocks.slice(0, frame.blocks).flatMap((block) => block.tokens);
  const template = frame.tokens.map((_, position) => held.get(position) ?? null);
  const start = frame.canvas_tokens.map((token, position) => held.get(position) ?? token);
  // A canvas at the end of the context is narrower; the field takes whole ones.
  const length = recording.frames[0].tokens.length;
  while (start.length < length) start.push(start[0]);
  const { body } = recording;
  return {
    ...body,
    seed,
    diffusion: {
      ...body?.diffusion,
      canvas: [...before, ...template],
      start_canvas: [...before, ...start],
      start_step: frame.step,
    },
  };
}
