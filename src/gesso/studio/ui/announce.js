// @ts-check
import { byId, button, fill, h } from "./dom.js";

/**
 * Tells something short to whoever hears the page instead of seeing it.
 * @param {string} text
 */
export function announce(text) {
  byId("announcements").textContent = text;
}

/** What had the focus before the message came. @type {Element | null} */
let before = null;

/**
 * Shows a message that stays until it is closed or replaced.
 * @param {string} text
 * @param {{label: string, act: () => void}} [remedy]
 */
export function alertUser(text, remedy) {
  const box = byId("alert");
  const focused = box.contains(document.activeElement);
  if (!focused) before = document.activeElement;
  const act = remedy && button(remedy.label, () => { clearAlert(); remedy.act(); });
  fill(box, h("span", {}, text), act, button("Close", clearAlert));
  box.hidden = false;
  if (focused) box.querySelector("button").focus();
}

/** Takes the message away; the focus goes from it to where it was before. */
export function clearAlert() {
  const box = byId("alert");
  const focused = box.contains(document.activeElement);
  box.hidden = true;
  fill(box);
  if (!focused) return;
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  if (document.activeElement !== before || before === document.body) byId("main").focus({ preventScroll: true });
}
