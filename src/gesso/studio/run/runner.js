// @ts-check
import { ApiFailure } from "../api/http.js";
import { streamed } from "../api/body.js";

/** @typedef {import("../api/http.js").Api} Api */
/** @typedef {import("./recording.js").Recording} Recording */

/**
 * Runs a request and records its answer.
 * @param {Api} api
 * @param {Recording} recording whose body is the request
 * @param {AbortSignal} signal stops it; the server ends the request then
 * @param {(kind: "frame" | "block") => void} changed told of everything that is added
 */
export async function run(api, recording, signal, changed) {
  const started = performance.now();
  const seconds = () => (performance.now() - started) / 1000;
  /** @type {Record<string, any>} */
  let ending = {};
  /** @type {Record<string, any>} */
  let usage = {};
  /** @type {import("./recording.js").Call[]} */
  const calls = [];
  await api.stream("v1/chat/completions", streamed(recording.body ?? {}), signal, (event, data) => {
    if (event === "diffusion.draft") {
      recording.addFrame(data.draft, seconds());
      changed("frame");
    } else if (event === "diffusion.block") {
      recording.addBlock(data.block, seconds());
      changed("block");
    } else {
      if (data.usage) usage = data.usage;
      const choice = data.choices[0];
      if (choice?.finish_reason) ending = choice;
      for (const call of choice?.delta.tool_calls ?? []) calls.push({ id: call.id, ...call.function });
    }
  });
  const report = ending.diffusion;
  if (!report) throw new ApiFailure("the server ended the answer without saying why");
  recording.result = {
    finish_reason: ending.finish_reason,
    seed: report.seed,
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    denoising_steps: report.denoising_steps,
    converged: report.converged,
    tokens_per_forward: report.tokens_per_forward,
    seconds: seconds(),
    cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    reasoning_tokens: usage.completion_tokens_details?.reasoning_tokens ?? 0,
    warnings: ending.warnings ?? [],
    calls,
    report,
  };
}
