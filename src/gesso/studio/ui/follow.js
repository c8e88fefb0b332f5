// @ts-check
import { byId } from "./dom.js";

/**
 * Changes the page, and goes along where that moves an element below the window which stood in it. Whoever has scrolled
 * away from it stays there.
 * @param {HTMLElement} element
 * @param {() => void} change
 */
export function following(element, change) {
  const { bottom } = element.getBoundingClientRect();
  const inSight = bottom > 0 && bottom <= innerHeight + 1; // of parts of a pixel
  change();
  if (inSight) element.scrollIntoView({ block: "nearest" });
}

/**
 * Whether a part of an element is in the window.
 * @param {HTMLElement} element
 */
export function partlySeen(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

/**
 * What stays in sight below an answer that grows: where the message is written, and with it Stop. In one column, as on a
 * phone, the canvas stands below that: there it is the canvas, down to its slider.
 * @param {HTMLElement} slider hidden where an answer has no canvas
 * @returns {HTMLElement}
 */
export function belowAnswers(slider) {
  const oneColumn = byId("canvas").offsetLeft === byId("chat").offsetLeft;
  return oneColumn && !slider.hidden ? slider : byId("composer");
}
