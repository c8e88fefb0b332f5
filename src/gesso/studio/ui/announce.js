// @ts-check
import { byId, button, fill, h } from "./dom.js";

/**
 * Tells something short to whoever hears the page instead of seeing it.
 * @param {string} text
 */
export function announce(text) {
  byId("announcements").textContent = text;
}

/**
 * Shows a message that stays until it is closed or replaced.
 * @param {string} text
 * @param {{label: string, act: () => void}} [remedy]
 */
export function alertUser(text, remedy) {
  const box = byId("alert");
  const close = () => {
    box.hidden = true;
    fill(box);
  };
  const act = remedy && button(remedy.label, () => { close(); remedy.act(); });
  fill(box, h("span", {}, text), act, button("Close", close));
  box.hidden = false;
}

/** Takes the message away. */
export function clearAlert() {
  byId("alert").hidden = true;
}
