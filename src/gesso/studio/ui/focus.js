// @ts-check
/** The focus, where what has it is taken away: it stays near, as it would else be lost to whoever uses the keyboard. */

const CONTROLS = "button, summary, input, textarea, a, [tabindex]";

/**
 * Shows a control in the place of another one, which hands the focus over where it has it.
 * @param {HTMLElement} shown
 * @param {HTMLElement} hidden
 */
export function exchange(shown, hidden) {
  const focused = document.activeElement === hidden;
  shown.hidden = false;
  if (focused) shown.focus({ preventScroll: true }); // whoever has scrolled away stays there
  hidden.hidden = true;
}

/**
 * Draws a part of the page anew. Where it has the focus, that goes to the control of the same name which stands there
 * then, or to the part itself, from where Tab goes on.
 * @param {() => Element | undefined} part as it is now
 * @param {() => void} draw
 * @param {string} [instead] how the name of the control begins that has it where there is none of the same name
 */
export function keepingFocus(part, draw, instead) {
  const focused = /** @type {HTMLElement} */ (document.activeElement);
  const before = part();
  if (!before?.contains(focused)) {
    draw();
    return;
  }
  const name = nameOf(focused);
  const place = controls(before).filter((control) => nameOf(control) === name).indexOf(focused);
  draw();
  const after = /** @type {HTMLElement | undefined} */ (part());
  if (focused.isConnected || !after) return;
  const same = controls(after).filter((control) => nameOf(control) === name)[place];
  const other = same ?? controls(after).find((control) => instead && nameOf(control).startsWith(instead));
  if (!other) after.tabIndex = -1;
  (other ?? after).focus({ preventScroll: true });
}

/**
 * @param {Element} part
 * @returns {HTMLElement[]} those that can have the focus
 */
function controls(part) {
  return [...part.querySelectorAll(CONTROLS)].map((control) => /** @type {HTMLElement} */ (control)).filter((control) => !control.matches(":disabled"));
}

/** @param {Element} control */
function nameOf(control) {
  return control.getAttribute("aria-label") ?? control.textContent ?? "";
}
