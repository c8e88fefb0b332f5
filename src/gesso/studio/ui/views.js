// @ts-check
import { byId } from "./dom.js";

/**
 * Makes the buttons of the head open their views.
 * @param {(opened: string) => void} told of the id of the view that is open now
 */
export function viewButtons(told) {
  const openers = [...document.querySelectorAll("[data-view]")].map((opener) => /** @type {HTMLElement} */ (opener));
  for (const opener of openers) {
    opener.addEventListener("click", () => {
      for (const other of openers) {
        byId(other.dataset.view ?? "").hidden = other !== opener;
        if (other === opener) other.setAttribute("aria-current", "page");
        else other.removeAttribute("aria-current");
      }
      told(opener.dataset.view ?? "");
    });
  }
}
