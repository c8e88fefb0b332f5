// @ts-check
/**
 * Keeps a conversation in its tab, so that neither a reload nor a step back to another page loses it. Steps of canvases
 * are left out, which the same seed makes again, and so is all of it where a browser has no room: images, as a rule.
 */
import { Recording } from "../run/recording.js";

/** @typedef {import("./conversation.js").Turn} Turn */

/** Its number rises with the form of what is kept. */
const KEY = "gesso.conversation.1";

/**
 * Goes on with the conversation that the tab had, and keeps it when the page is left.
 * @param {import("./chat.js").Chat} chat
 */
export function keepWithTab(chat) {
  const turns = kept();
  if (turns.length) chat.restore(turns);
  addEventListener("pagehide", () => keep(chat.conversation.turns));
}

/** @param {Turn[]} turns */
function keep(turns) {
  try {
    sessionStorage.removeItem(KEY);
    if (turns.length) sessionStorage.setItem(KEY, JSON.stringify(turns));
  } catch {
    // Without room, or where the person lets pages keep nothing, it ends with the page.
  }
}

/**
 * What was kept. An answer that was being written was stopped.
 * @returns {Turn[]}
 */
function kept() {
  /** @type {string | null} */
  let text = null;
  try {
    text = sessionStorage.getItem(KEY);
  } catch {
    // Nothing is kept there.
  }
  /** @type {any[]} */
  const turns = text ? JSON.parse(text) : [];
  for (const variant of turns.flatMap((turn) => turn.variants ?? [])) {
    variant.recording = Recording.from(variant.recording);
    if (variant.state === "running") variant.state = "stopped";
  }
  return turns;
}
