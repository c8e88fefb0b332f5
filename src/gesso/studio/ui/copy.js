// @ts-check
import { announce } from "./announce.js";
import { h } from "./dom.js";

const SHOWN_MS = 2000;

/**
 * Copies a text, and says on the button that was pressed how it went.
 * @param {HTMLElement} pressed
 * @param {string} text
 * @param {string} [otherwise] what the button says where the browser does not allow it
 */
export async function copyFor(pressed, text, otherwise = "Not allowed") {
  const label = pressed.textContent;
  const told = (await copied(text)) ? "Copied" : otherwise;
  pressed.textContent = told;
  announce(told);
  setTimeout(() => { if (pressed.textContent === told) pressed.textContent = label; }, SHOWN_MS);
}

/**
 * Copies a text; pages that came over plain HTTP have no clipboard, and take the older way.
 * @param {string} text
 * @returns {Promise<boolean>} whether it was copied
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    const focused = document.activeElement;
    // In an open dialog the rest of the page takes no focus.
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}
