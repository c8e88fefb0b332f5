// @ts-check
/** Keeps what is typed and set with its tab, as the conversation is kept: whoever comes back finds the page as it was. */
import { keepInTab, keptInTab } from "../ui/tab.js";
import { sharedIn } from "./link.js";

/** @typedef {import("./link.js").Shared} Shared */

const KEY = "gesso.choices.1";

/**
 * What the page begins with: what stood in it when the tab left this address, or else what the address holds.
 * @param {string} hash
 * @returns {Shared}
 */
export function choicesAt(hash) {
  const kept = keptInTab(KEY);
  return kept?.hash === hash ? kept.choices : sharedIn(hash);
}

/**
 * Keeps what there is when the page is left.
 * @param {() => Shared} now
 */
export function keepChoices(now) {
  addEventListener("pagehide", () => keepInTab(KEY, { hash: location.hash, choices: now() }));
}
