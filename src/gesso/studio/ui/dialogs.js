// @ts-check
import { byId, fill, h } from "./dom.js";
import { codeBlock } from "../chat/markdown.js";
import { asCurl, asPython } from "../api/body.js";

/**
 * Asks for the key of the server.
 * @param {string} reason
 * @returns {Promise<string>} empty where the person closes the dialog
 */
export function askForKey(reason) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("key-dialog"));
  const input = /** @type {HTMLInputElement} */ (byId("key"));
  byId("key-reason").textContent = reason;
  input.value = "";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const key = dialog.returnValue === "use" ? input.value.trim() : "";
      input.value = "";
      resolve(key);
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
}

/**
 * Shows a request as curl and as Python.
 * @param {Record<string, any>} body
 * @param {boolean} withKey
 */
export function showRequest(body, withKey) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("request-dialog"));
  const address = new URL(".", document.baseURI).href.replace(/\/$/, "");
  fill(
    byId("request-forms"), h("h3", {}, "curl"), codeBlock(asCurl(address, body, withKey), "sh"),
    h("h3", {}, "Python"), codeBlock(asPython(address, body, withKey), "python"),
  );
  dialog.showModal();
}
