// @ts-check
/** What the browser keeps with a tab, and forgets with it. */

/**
 * Keeps a value under a name; null takes it away.
 * @param {string} name its number rises with the form of what is kept
 * @param {any} value
 */
export function keepInTab(name, value) {
  try {
    sessionStorage.removeItem(name);
    if (value !== null) sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // Without room, or where the person lets pages keep nothing, it ends with the page.
  }
}

/**
 * The value that was kept under a name; null where there is none.
 * @param {string} name
 * @returns {any}
 */
export function keptInTab(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null");
  } catch {
    return null; // nothing is kept there
  }
}
