// @ts-check
import { announce } from "../ui/announce.js";
import { button, fill, h } from "../ui/dom.js";
import { takeLongTexts } from "../ui/paste.js";
import { differences } from "./diff.js";
import { editRequest, fillRequest, HOLE } from "./requests.js";

/**
 * What the editor needs of the page.
 * @typedef {object} Page
 * @property {import("../api/http.js").Api} api
 * @property {() => {model: string, settings: Record<string, any>}} choices throws where a setting is wrong
 * @property {(failure: any, again: () => void) => void} failed
 * @property {() => void} begin takes away what was said of an earlier request
 */

/** An editor of plain text with holes and a selection. Nothing changes before what is proposed is taken. */
export class Editor {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    /** @type {{before: string, after: string}[]} Texts before and after each change that was taken, and each hole that was made. */
    this.earlier = [];
    /** @type {AbortController | null} */
    this.abort = null;
    /** @type {[number, number]} What is selected; buttons take the focus, and some browsers the selection with it. */
    this.selection = [0, 0];
    this.text = h("textarea", { id: "edit-text", rows: "14", dir: "auto", spellcheck: "false" });
    this.instruction = h("input", { id: "edit-instruction", type: "text", autocomplete: "off", dir: "auto" });
    this.stop = button("Stop", () => this.abort?.abort(), { hidden: true });
    this.askers = [
      button("Fill the holes", () => void this.#fill(), { class: "primary" }),
      button("Edit what is selected", () => void this.#edit(), { class: "primary" }),
    ];
    this.elapsed = h("span", { class: "dim" });
    this.undo = button("Undo", () => this.#undo(), { disabled: true });
    this.note = h("p", { class: "dim", role: "status" });
    this.proposal = h("div", { class: "proposal" });
    takeLongTexts(this.text);
    this.text.addEventListener("select", () => this.#select());
    this.text.addEventListener("blur", () => this.#select());
    this.element = h(
      "section", { class: "editor", "aria-label": "Fill and edit" },
      h("label", { for: "edit-text" }, "Text"), this.text,
      h("p", { class: "dim" }, "A hole is written ", h("code", {}, HOLE), ", or with a name and bounds ", h("code", {}, "{{city: 2-12}}"), ". What is selected is all that an edit may change; without a selection it is the whole text."),
      h("div", { class: "actions" }, h("label", { for: "edit-instruction" }, "Instruction"), this.instruction),
      h(
        "div", { class: "actions" }, button("Make a hole", () => this.#hole()), this.askers, this.undo, this.stop, this.elapsed,
      ),
      this.note, this.proposal,
    );
  }

  #select() {
    this.selection = [this.text.selectionStart, this.text.selectionEnd];
  }

  #hole() {
    const [start, end] = this.selection;
    const before = this.text.value;
    this.text.setRangeText(HOLE, start, end, "end");
    this.#keep(before);
    this.#select();
    this.text.focus();
  }

  #fill() {
    const text = this.text.value;
    const instruction = this.instruction.value;
    if (!text.trim()) return this.#wants("There is no text to fill.", this.text);
    return this.#ask("v1/fill", (choices) => fillRequest({ ...choices, text, instruction }), (answer) => {
      const holes = answer.holes.map((/** @type {any} */ hole, /** @type {number} */ number) => alternatives(hole, number));
      this.#propose(text, answer.text, holes);
    });
  }

  #edit() {
    const text = this.text.value;
    const [start, end] = this.selection;
    const instruction = this.instruction.value;
    if (!text.trim()) return this.#wants("There is no text to edit.", this.text);
    if (!instruction.trim()) return this.#wants("Say in the instruction what is to change.", this.instruction);
    return this.#ask("v1/edit", (choices) => editRequest({ ...choices, text, instruction, start, end }), (answer) => {
      if (answer.changed) this.#propose(text, answer.text, []);
      else this.note.textContent = answer.left_out ?? "The model would change nothing.";
    });
  }

  /**
   * Says what is missing, where it belongs.
   * @param {string} what
   * @param {HTMLElement} field
   */
  #wants(what, field) {
    this.note.textContent = what;
    field.focus();
  }

  /**
   * @param {string} path
   * @param {(choices: {model: string, settings: Record<string, any>}) => {body: object, left: string[], lines?: boolean}} make
   * @param {(answer: any) => void} take
   */
  async #ask(path, make, take) {
    if (this.abort) return;
    this.page.begin();
    fill(this.proposal);
    this.abort = new AbortController();
    const asker = document.activeElement;
    const count = this.#count();
    try {
      const { body, left, lines } = make(this.page.choices());
      const notes = [
        lines && "What is selected stands in the text more than once: its whole lines may change.",
        left.length > 0 && `Without these settings, which this request has no field for: ${left.join(", ")}.`,
      ];
      this.note.textContent = notes.filter(Boolean).join(" ");
      this.stop.hidden = false;
      take(await this.page.api.post(path, body, this.abort.signal));
    } catch (error) {
      if (/** @type {any} */ (error)?.name === "AbortError") this.note.textContent = "Stopped: the text is as it was.";
      else this.page.failed(error, () => void this.#ask(path, make, take));
    } finally {
      clearInterval(count);
      this.elapsed.textContent = "";
      this.abort = null;
      this.stop.hidden = true;
      for (const opener of this.askers) opener.disabled = false;
      // The focus left a button that was disabled: it goes back, unless something else has taken it.
      if (asker instanceof HTMLElement && document.activeElement === document.body) asker.focus();
    }
  }

  /** Shows that the model writes, and for how long; returns the timer. */
  #count() {
    const begin = performance.now();
    const show = () => {
      this.elapsed.textContent = `The model writes: ${Math.floor((performance.now() - begin) / 1000)} s`;
    };
    show();
    for (const opener of this.askers) opener.disabled = true;
    announce("the model writes");
    return setInterval(show, 1000);
  }

  /**
   * @param {string} old
   * @param {string} now
   * @param {Node[]} more
   */
  #propose(old, now, more) {
    const parts = differences(old, now).map(({ kind, text }) =>
      kind === "same" ? text : kind === "gone" ? h("del", {}, marked(text)) : h("ins", {}, marked(text)),
    );
    const take = button("Take it", () => {
      if (this.text.value !== old) {
        this.note.textContent = "The text was changed meanwhile: ask again.";
        return;
      }
      this.#put(now);
      this.#keep(old);
      fill(this.proposal);
      announce("taken");
    }, { class: "primary" });
    fill(
      this.proposal, h("h2", {}, "Proposal"), h("pre", { class: "difference", dir: "auto", tabindex: "0" }, parts), more,
      h("div", { class: "actions" }, take, button("Leave it", () => { fill(this.proposal); this.text.focus(); })),
    );
    announce("there is a proposal");
    take.focus();
  }

  /**
   * Keeps for Undo what the text was before it became what it is now.
   * @param {string} before
   */
  #keep(before) {
    this.earlier.push({ before, after: this.text.value });
    this.undo.disabled = false;
  }

  /**
   * Puts a text in the place of all that is there. Browsers move the selection then, and tell nobody.
   * @param {string} text
   */
  #put(text) {
    this.text.value = text;
    this.#select();
  }

  #undo() {
    const last = this.earlier.at(-1);
    if (last && this.text.value !== last.after) {
      this.note.textContent = "The text was changed since: Undo would lose that. Take your own changes back first.";
      return;
    }
    this.earlier.pop();
    if (last) this.#put(last.before);
    this.undo.disabled = this.earlier.length === 0;
  }
}

/**
 * A change as it is shown: ends of lines are marked.
 * @param {string} text
 */
function marked(text) {
  return text.replaceAll("\n", "\u21b5\n");
}

/**
 * What else could stand in a hole.
 * @param {{name: string, text: string, score: number, alternatives: {text: string, score: number}[]}} hole
 * @param {number} number
 */
function alternatives(hole, number) {
  const all = [hole, ...hole.alternatives];
  const rows = all.map(({ text, score }) => h("tr", {}, h("td", { dir: "auto" }, marked(text)), h("td", {}, score.toFixed(2))));
  const heads = h("tr", {}, h("th", { scope: "col" }, "Text"), h("th", { scope: "col" }, "Nats a token"));
  return h("details", {}, h("summary", {}, `Hole ${hole.name || number + 1}: what else could stand there`), h("table", {}, h("thead", {}, heads), h("tbody", {}, rows)));
}
