// @ts-check
import { byId } from "./dom.js";

/** Makes the parts of the page work that know nothing of the server: the skip link, the theme, what closes dialogs. */
export function pageControls() {
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault(); // the address stays the link that it is
    byId("main").focus();
  });
  byId("theme").addEventListener("change", (/** @type {any} */ event) => {
    document.documentElement.dataset.theme = event.target.value;
  });
  for (const closer of document.querySelectorAll("[data-close]")) {
    closer.addEventListener("click", () => closer.closest("dialog")?.close());
  }
}
