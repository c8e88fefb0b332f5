// @ts-check
import { byId } from "./dom.js";

/**
 * Makes the buttons of the head open their views, and the browser's Back and Forward go from one to the other.
 * @param {(opened: string) => void} told of the id of the view that is open now
 */
export function viewButtons(told) {
  const openers = [...document.querySelectorAll("[data-view]")].map((opener) => /** @type {HTMLElement} */ (opener));
  const views = openers.map((opener) => opener.dataset.view ?? "");
  let opened = views[0];

  /** @param {string} view */
  function open(view) {
    for (const opener of openers) {
      byId(opener.dataset.view ?? "").hidden = opener.dataset.view !== view;
      if (opener.dataset.view === view) opener.setAttribute("aria-current", "page");
      else opener.removeAttribute("aria-current");
    }
    opened = view;
    told(view);
  }

  for (const opener of openers) {
    opener.addEventListener("click", () => {
      const view = opener.dataset.view ?? "";
      if (view !== opened) history.pushState({ view }, "");
      open(view);
    });
  }
  addEventListener("popstate", ({ state }) => {
    const view = views.includes(state?.view) ? state.view : views[0];
    if (view !== opened) open(view);
  });
}
