// @ts-check
/** Traces: what `gesso generate --trace` writes and `gesso replay` shows, as JSON lines. */
import { Recording } from "./recording.js";

const VERSION = 1;

/**
 * An answer that is finished as a trace.
 * @param {Recording} recording
 * @returns {string}
 */
export function traceOf(recording) {
  const { result } = recording;
  if (!result) throw new Error("only a finished answer can be saved");
  const { model, prompt, special, body } = recording;
  const header = { gesso_trace: VERSION, model, prompt, special: [...special].sort((a, b) => a - b), request: body };
  const rows = [];
  for (let number = 0; number <= recording.blocks.length; number++) {
    rows.push(...recording.frames.filter((frame) => frame.blocks === number).map(draftRow));
    const block = recording.blocks[number];
    if (block) rows.push({ seconds: block.seconds, event: "block", ...without(block, "seconds"), tool_calls: [], logprobs: [] });
  }
  rows.push({ seconds: round(result.seconds), event: "finished", result: resultRow(recording) });
  return [header, ...rows].map((row) => JSON.stringify(row) + "\n").join("");
}

/** @param {import("./recording.js").Frame} frame */
function draftRow(frame) {
  const flags = { accepted: frame.accepted.map(Boolean), pinned: frame.pinned.map(Boolean), forced: frame.forced.map(Boolean) };
  const { seconds, blocks, ...rest } = frame;
  return { seconds: round(seconds), event: "draft", ...rest, ...flags };
}

/** @param {Recording} recording */
function resultRow(recording) {
  const result = /** @type {import("./recording.js").Result} */ (recording.result);
  return {
    text: recording.text,
    reasoning: recording.reasoning,
    token_ids: recording.blocks.flatMap((block) => block.tokens),
    finish_reason: result.finish_reason === "tool_calls" ? "stop" : result.finish_reason,
    prompt_tokens: result.prompt_tokens,
    completion_tokens: result.completion_tokens,
    denoising_steps: result.denoising_steps,
    converged: result.converged,
    seed: result.seed,
    seconds_to_first_block: round(recording.blocks[0]?.seconds ?? 0),
    seconds: round(result.seconds),
    tool_calls: result.calls.map(({ name, arguments: given }) => ({ name, arguments: given })),
    warnings: result.warnings,
    cached_tokens: result.cached_tokens,
    reasoning_tokens: result.reasoning_tokens,
    mode: result.report.mode ?? "canvas",
    decision: result.report.decision ?? "",
    verify_rounds: result.report.verify_rounds ?? [],
    rejected_tokens: result.report.rejected_tokens ?? 0,
  };
}

/**
 * The answer that a trace holds.
 * @param {string} text
 * @param {boolean} [cut] whether it may end before its answer does
 * @returns {Recording}
 */
export function recordingOf(text, cut = false) {
  const rows = text.replace(/\n$/, "").split("\n").map(parsed);
  const [header, ...events] = rows;
  if (header.gesso_trace !== VERSION || !Array.isArray(header.special)) throw new Error("this is no gesso trace of version 1");
  // A request is only gone on with, which a trace that may be cut is not for.
  if (!cut && header.request && !Array.isArray(header.request.messages)) throw notWhole(1);
  const body = header.request && typeof header.request === "object" ? header.request : null;
  const recording = new Recording({ model: String(header.model ?? ""), prompt: String(header.prompt ?? ""), special: header.special, body });
  events.forEach((event, number) => take(recording, event, number + 2));
  if (!recording.result && !cut) throw new Error("this trace is cut short: its last line is not the end of a request");
  return recording;
}

/**
 * @param {string} line
 * @param {number} number
 * @returns {Record<string, any>}
 */
function parsed(line, number) {
  try {
    const row = JSON.parse(line);
    if (row && typeof row === "object" && !Array.isArray(row)) return row;
  } catch { /* told below */ }
  throw new Error(`line ${number + 1} of this file is no JSON object`);
}

/**
 * @param {Recording} recording
 * @param {Record<string, any>} row
 * @param {number} number
 */
function take(recording, row, number) {
  const { seconds, event, ...rest } = row;
  const bad = notWhole(number);
  if (typeof seconds !== "number") throw bad;
  if (event === "draft") {
    if (!isFrame(rest)) throw bad;
    const flags = { accepted: rest.accepted.map(Number), pinned: (rest.pinned ?? []).map(Number), forced: (rest.forced ?? []).map(Number) };
    recording.addFrame({ ...rest, ...flags }, seconds);
  } else if (event === "block") {
    if (typeof rest.text !== "string" || typeof rest.reasoning !== "string" || !Array.isArray(rest.tokens)) throw bad;
    recording.addBlock(rest, seconds);
  } else if (event === "finished" && rest.result && Array.isArray(rest.result.denoising_steps)) {
    const result = rest.result;
    recording.result = { ...result, calls: result.tool_calls ?? [], warnings: result.warnings ?? [], report: result };
  } else throw bad;
}

/** @param {number} line */
function notWhole(line) {
  return new Error(`line ${line} of this trace is not whole`);
}

/** @param {Record<string, any>} row */
function isFrame(row) {
  const lists = [row.tokens, row.pieces, row.accepted, row.entropy];
  const whole = lists.every((list) => Array.isArray(list) && list.length === row.tokens.length) && row.tokens.length > 0;
  const optional = [row.canvas_tokens, row.pinned, row.forced];
  const rest = optional.every((list) => list === undefined || (Array.isArray(list) && [0, row.tokens.length].includes(list.length)));
  const texts = whole && row.pieces.every((/** @type {any} */ piece) => typeof piece === "string");
  const numbers = [row.canvas, row.step, row.max_denoising_steps, row.temperature, ...(whole ? row.entropy : [])];
  return texts && rest && numbers.every((value) => typeof value === "number");
}

/**
 * @param {Record<string, any>} record
 * @param {string} name
 */
function without(record, name) {
  const { [name]: _, ...rest } = record;
  return rest;
}

/** @param {number} seconds */
function round(seconds) {
  return Math.round(seconds * 1e4) / 1e4;
}
