// @ts-check
import { alertUser } from "./announce.js";

/** Characters of a field: with more, browsers stand still for minutes. */
const MOST = 1_000_000;
/** Characters from which on a text is put in at once. Browsers take it in line by line, a minute for some thousands. */
const LONG = 5_000;

/**
 * Lets a field take long texts from the clipboard without a halt, and refuse those that are too long for any field.
 * @param {HTMLTextAreaElement} field
 */
export function takeLongTexts(field) {
  field.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text") ?? "";
    if (text.length < LONG) return;
    event.preventDefault();
    if (field.value.length + text.length > MOST) {
      const [many, most] = [text.length, MOST].map((number) => number.toLocaleString("en"));
      alertUser(`A text of ${many} characters was not pasted: this field takes ${most}.`);
      return;
    }
    field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}
