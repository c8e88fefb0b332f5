// @ts-check
import { chatBody } from "../api/body.js";
import { ApiFailure } from "../api/http.js";
import { CanvasPanel } from "../canvas/panel.js";
import { CUT_OFF, SingleRun, STOPPED } from "../run/single.js";
import { button, fill, h } from "../ui/dom.js";
import { exchange } from "../ui/focus.js";
import { takeLongTexts } from "../ui/paste.js";
import { KINDS, outputsOf } from "./constraint.js";
import { tree, valueIn } from "./tree.js";
import { Verdicts } from "./verdict.js";

/** @typedef {import("./constraint.js").Kind} Kind */
/** @typedef {import("../run/recording.js").Recording} Recording */
/**
 * @typedef {object} Page
 * @property {import("../api/http.js").Api} api
 * @property {() => void} begin takes away what was said of an earlier request
 * @property {() => {model: string, system: string, settings: Record<string, any>}} choices throws where a setting is wrong
 * @property {() => number[]} special
 * @property {(failure: unknown, again: () => void) => void} failed
 * @property {(body: Record<string, any>) => void} request shows a request
 */

/** Answers that are valid by construction: a constraint, what it says of a text, and the answer as a tree. */
export class StructureView {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.single = new SingleRun(page.api);
    this.verdicts = new Verdicts(page.api, (told) => this.#tell(told), (failure) => this.#mark("unknown", failure.message));
    this.panel = new CanvasPanel(null, { prefix: "structure-cell" });
    this.kind = h("select", { id: "constraint-kind", onchange: () => this.#choose() }, Object.entries(KINDS).map(([kind, { name }]) => h("option", { value: kind }, name)));
    this.help = h("p", { class: "dim", id: "constraint-help" });
    this.constraint = h("textarea", { id: "constraint", rows: "10", spellcheck: "false", class: "code-text", "aria-describedby": "constraint-help constraint-verdict", oninput: () => this.#keep() });
    this.constraintVerdict = h("p", { class: "verdict", id: "constraint-verdict", role: "status" });
    this.message = h("textarea", { id: "structure-message", rows: "3", dir: "auto" });
    this.message.value = "The blue kettle costs 36 euros and is made in Oslo. Give item, price and city as JSON.";
    this.text = h("textarea", { id: "structure-text", rows: "4", dir: "auto", spellcheck: "false", class: "code-text", "aria-describedby": "text-verdict", oninput: () => this.#typed() });
    this.textVerdict = h("p", { class: "verdict", id: "text-verdict", role: "status" });
    /** Whether the text is whole: a person's, or an answer that came to its end. */
    this.whole = true;
    this.ending = h("p", { class: "warning", hidden: true });
    this.tree = h("div", {});
    this.send = button("Ask", () => void this.#ask(), { class: "primary" });
    this.stop = button("Stop", () => this.single.stop(), { hidden: true });
    for (const field of [this.message, this.constraint, this.text]) takeLongTexts(field);
    this.element = h(
      "section", { class: "page columns", "aria-label": "Structure" },
      h(
        "div", { class: "column" },
        h("div", { class: "row" }, h("label", { for: "constraint-kind" }, "The answer is held to a"), this.kind),
        h("label", { for: "constraint" }, "Constraint"), this.constraint, this.help, this.constraintVerdict,
        h("label", { for: "structure-message" }, "Message"), this.message,
        h("div", { class: "actions" }, this.send, this.stop, button("Request as code", () => this.#request())),
      ),
      h(
        "div", { class: "column" },
        h("label", { for: "structure-text" }, "Answer, or any text to be judged"), this.text, this.ending, this.textVerdict, this.tree,
        h("h2", {}, "Canvas"), this.panel.element,
      ),
    );
    this.open = false;
    /** What was typed for each kind. @type {Partial<Record<Kind, string>>} */
    this.typed = {};
    this.#choose();
  }

  /** @param {boolean} open whether the view is looked at: nothing is judged before */
  show(open) {
    this.open = open;
    if (open) this.judge();
  }

  /** Shows what was typed for the chosen kind, or its example where nothing was. */
  #choose() {
    const kind = /** @type {Kind} */ (this.kind.value);
    this.help.textContent = KINDS[kind].help;
    this.constraint.value = this.typed[kind] ?? KINDS[kind].example;
    this.judge();
  }

  #keep() {
    this.typed[/** @type {Kind} */ (this.kind.value)] = this.constraint.value;
    this.judge();
  }

  /** What a person types is whole, whatever it was before. */
  #typed() {
    this.whole = true;
    this.ending.hidden = true;
    this.judge();
  }

  /** Judges what stands in the fields, once nobody types any more. */
  judge() {
    const text = this.text.value;
    this.#askForVerdict(text);
    const value = valueIn(text);
    fill(this.tree, value && tree(value));
  }

  /** @param {string} text */
  #askForVerdict(text) {
    this.verdicts.cancel();
    if (!this.open) return;
    this.#mark("unknown", "");
    try {
      this.verdicts.ask(outputsOf(/** @type {Kind} */ (this.kind.value), this.constraint.value), this.whole ? text : "");
    } catch (error) {
      verdict(this.constraintVerdict, "bad", /** @type {Error} */ (error).message);
    }
  }

  /** @param {import("./verdict.js").Explanation} told */
  #tell({ usable, accepts, explanation, ignored, states }) {
    if (!usable) {
      this.#mark("bad", explanation ?? "");
      return;
    }
    const rest = ignored.length ? ` Not held to, because not known: ${ignored.join(", ")}.` : "";
    verdict(this.constraintVerdict, "good", `Can be used: ${states.toLocaleString("en")} states.${rest}`);
    if (accepts === null) verdict(this.textVerdict, "unknown", "");
    else verdict(this.textVerdict, accepts ? "good" : "bad", accepts ? "Valid." : `Not valid. ${explanation}`);
  }

  /**
   * @param {Look} look
   * @param {string} message about the constraint
   */
  #mark(look, message) {
    verdict(this.constraintVerdict, look, message);
    verdict(this.textVerdict, "unknown", "");
  }

  #body() {
    const { model, system, settings } = this.page.choices();
    const outputs = outputsOf(/** @type {Kind} */ (this.kind.value), this.constraint.value);
    const messages = [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: this.message.value }];
    return chatBody({ model, messages, settings: { ...settings, structured_outputs: outputs } });
  }

  #request() {
    this.#guarded(() => this.page.request(this.#body()));
  }

  async #ask() {
    if (this.single.running) return;
    if (!this.message.value.trim()) {
      this.message.focus();
      return;
    }
    this.page.begin();
    /** @type {Record<string, any> | null} */
    let body = null;
    this.#guarded(() => { body = this.#body(); });
    if (!body) return;
    exchange(this.stop, this.send);
    try {
      const show = (/** @type {Recording} */ recording, /** @type {boolean} */ running) => this.#show(recording, running);
      if (!(await this.single.all([{ body, special: this.page.special(), show }]))) this.#unfinished(STOPPED);
    } catch (error) {
      this.#unfinished(CUT_OFF);
      if (!(error instanceof ApiFailure)) throw error;
      this.page.failed(error, () => void this.#ask());
    } finally {
      exchange(this.send, this.stop);
    }
  }

  /**
   * Shows what has come of an answer. The text that was to be judged stays until there is something in its place.
   * @param {Recording} recording
   * @param {boolean} running
   */
  #show(recording, running) {
    this.panel.update(recording, running);
    const whole = recording.result !== null;
    if (!recording.blocks.length && !whole) return;
    if (this.text.value === recording.text && this.whole === whole) return;
    this.text.value = recording.text;
    this.whole = whole;
    this.ending.hidden = true;
    this.judge();
  }

  /**
   * Says that the answer has no end, where some of it is there.
   * @param {string} message
   */
  #unfinished(message) {
    this.ending.hidden = this.whole;
    this.ending.textContent = message;
  }

  /** @param {() => void} act */
  #guarded(act) {
    try {
      act();
    } catch (error) {
      this.page.failed(error, () => {});
    }
  }
}

/** @typedef {"good" | "bad" | "unknown"} Look */

/**
 * @param {HTMLElement} place
 * @param {Look} look
 * @param {string} message
 */
function verdict(place, look, message) {
  place.dataset.verdict = look;
  const sign = look === "good" ? "\u2713 " : look === "bad" ? "\u2717 " : "";
  if (place.textContent !== sign + message) place.textContent = sign + message;
}
