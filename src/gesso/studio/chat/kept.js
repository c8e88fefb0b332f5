// @ts-check
/**
 * Keeps a conversation in its tab, so that neither a reload nor a step back to another page loses it. Steps of canvases
 * are left out, which the same seed makes again, and so is all of it where a browser has no room: images, as a rule.
 */
import { Recording } from "../run/recording.js";
import { keepInTab, keptInTab } from "../ui/tab.js";

/** @typedef {import("./conversation.js").Turn} Turn */

const KEY = "gesso.conversation.1";

/**
 * Goes on with the conversation that the tab had, and keeps it when the page is left.
 * @param {import("./chat.js").Chat} chat
 */
export function keepWithTab(chat) {
  const turns = kept();
  if (turns.length) chat.restore(turns);
  addEventListener("pagehide", () => keepInTab(KEY, chat.conversation.turns));
}

/**
 * What was kept. An answer that was being written was stopped.
 * @returns {Turn[]}
 */
function kept() {
  /** @type {any[]} */
  const turns = keptInTab(KEY) ?? [];
  for (const variant of turns.flatMap((turn) => turn.variants ?? [])) {
    variant.recording = Recording.from(variant.recording);
    if (variant.state === "running") variant.state = "stopped";
  }
  return turns;
}
