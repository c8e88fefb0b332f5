// @ts-check
import { byId } from "./dom.js";
import { keepInTab, keptInTab } from "./tab.js";

const THEME = "gesso.theme.1";

/** Makes the parts of the page work that know nothing of the server: the skip link, the theme, what closes dialogs. */
export function pageControls() {
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault(); // the address stays the link that it is
    byId("main").focus();
  });
  /** @type {HTMLSelectElement} */
  const theme = byId("theme");
  const show = () => { document.documentElement.dataset.theme = theme.value; };
  theme.value = keptInTab(THEME) ?? "auto";
  show();
  theme.addEventListener("change", () => {
    show();
    keepInTab(THEME, theme.value);
  });
  for (const closer of document.querySelectorAll("[data-close]")) {
    closer.addEventListener("click", () => closer.closest("dialog")?.close());
  }
}

/**
 * Makes a button open the browser's choice of files.
 * @param {HTMLElement} opener
 * @param {HTMLInputElement} input hidden
 * @param {(file: File) => void} take is told of the one that was chosen
 */
export function fileButton(opener, input, take) {
  opener.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    if (input.files?.[0]) take(input.files[0]);
    input.value = ""; // the same one may be chosen again
  });
}
