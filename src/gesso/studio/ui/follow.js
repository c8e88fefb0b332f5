// @ts-check

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
