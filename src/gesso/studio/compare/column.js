// @ts-check
import { ApiFailure } from "../api/http.js";
import { CanvasPanel } from "../canvas/panel.js";
import { markdown } from "../chat/markdown.js";
import { summaryOf } from "../run/figures.js";
import { SettingsForm } from "../settings/form.js";
import { fill, h } from "../ui/dom.js";
import { patch } from "../ui/patch.js";

/** @typedef {import("../run/recording.js").Recording} Recording */

/** One side of a comparison: a model, settings, and the answer that they give. */
export class Column {
  /** @param {"Left" | "Right"} name */
  constructor(name) {
    const prefix = name.toLowerCase();
    this.name = name;
    /** @type {Recording | null} */
    this.recording = null;
    this.model = h("select", { id: `${prefix}-model` });
    this.form = new SettingsForm(() => {}, `${prefix}-`);
    this.panel = new CanvasPanel(null, { prefix: `${prefix}-cell`, compact: prefix });
    this.answer = h("div", { class: "answer" });
    this.summary = h("p", { class: "dim" });
    this.ending = h("p", { class: "warning", hidden: true });
    this.settings = h("details", {}, h("summary", {}, "Settings of this side"), h("p", { class: "dim" }, "They go before the settings of the page."), this.form.element);
    this.element = h(
      "div", { class: "column", role: "group", "aria-label": name },
      h("h2", {}, name), h("div", { class: "row" }, h("label", { for: `${prefix}-model` }, "Model"), this.model), this.settings,
      this.panel.element, this.answer, this.ending, this.summary,
    );
  }

  /**
   * @param {Recording} recording
   * @param {boolean} running
   */
  show(recording, running) {
    this.recording = recording;
    this.panel.update(recording, running);
    patch(this.answer, h("div", {}, markdown(recording.text)));
    this.summary.textContent = recording.result ? summaryOf(recording).join(" \u00b7 ") : "";
  }

  /**
   * What is set on this side.
   * @throws {Error} a field is wrong: it gets the focus, and the error tells the side
   */
  values() {
    try {
      return this.form.values();
    } catch (error) {
      this.settings.open = true; // a field gets no focus in what is closed
      /** @type {HTMLElement | null} */ (this.settings.querySelector("[data-wrong]"))?.focus();
      throw new Error(`${this.name}: ${/** @type {Error} */ (error).message}`);
    }
  }

  /**
   * Marks what the server refused where it was set, and tells the side.
   * @param {ApiFailure} failure
   * @param {Record<string, any>} ofPage settings of the page, which count where this side has none
   * @returns {ApiFailure} what is left to be told
   */
  refused(failure, ofPage) {
    const { status, code, param } = failure;
    const message = `${this.name}: ${failure.message}`;
    const set = param !== null && (param in this.form.texts() || !(param in ofPage));
    if (!set || !this.form.refuse(param, failure.message)) return new ApiFailure(message, { status, code, param });
    this.settings.open = true;
    return new ApiFailure(message, { status, code });
  }

  /**
   * Says that its answer has no end, where one was begun.
   * @param {string} message
   */
  unfinished(message) {
    if (!this.recording || this.recording.result) return;
    this.ending.hidden = false;
    this.ending.textContent = message;
  }

  clear() {
    this.recording = null;
    this.ending.hidden = true;
    fill(this.answer);
    this.summary.textContent = "";
    this.panel.clear();
  }
}
