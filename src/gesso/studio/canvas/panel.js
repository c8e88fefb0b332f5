// @ts-check
import { announce } from "../ui/announce.js";
import { button, fill, h, oncePerPicture } from "../ui/dom.js";
import { continuation, obstacle } from "../run/continuation.js";
import { Figures } from "./figures.js";
import { HistoryView } from "./history.js";
import { Player } from "./player.js";
import { legend } from "./scale.js";
import { CanvasView } from "./view.js";

/** @typedef {import("../run/recording.js").Recording} Recording */

/**
 * @typedef {object} Tell
 * @property {(body: Record<string, any>) => void} goOn
 * @property {(text: string) => Promise<{tokens: number[], pieces: string[]}>} tokenize
 * @property {(recording: Recording, index: number) => void} [drawn] told of the frame that is shown
 */

const TOKEN_BY_TOKEN = "Token by token there is no canvas: each token is written once, from left to right.";

/** The canvas of one answer with all that belongs to it: figures, scrubber, history, and what is held. */
export class CanvasPanel {
  /**
   * @param {Tell | null} tell null where nothing can be held or gone on with
   * @param {{prefix?: string, compact?: string, beside?: HTMLElement | null,
   *   around?: (draw: () => void) => void}} [look] `prefix` of the ids of cells, where
   *   a page has several canvases; `compact` leaves the legend out, and tells which of several canvases it is; `beside`
   *   stands beside the canvas; `around` calls what draws the panel
   */
  constructor(tell, { prefix = "cell", compact = "", beside = null, around = (draw) => draw() } = {}) {
    this.tell = tell;
    /** @type {Recording | null} */
    this.recording = null;
    this.running = false;
    this.index = 0;
    /** @type {Map<number, {token: number, piece: string}>} What the person holds, by position. */
    this.held = new Map();
    /** @type {number | null} */
    this.pointed = null;
    this.view = new CanvasView({ look: (position) => this.#look(position), hold: (position) => this.#hold(position) }, prefix);
    this.player = new Player((index) => this.#show(index));
    this.history = new HistoryView(tell !== null, compact);
    this.figures = new Figures();
    this.holding = h("div", { class: "holding", hidden: true });
    this.note = h("p", { class: "dim" }, "Ask something: the canvas appears here while it resolves.");
    const explained = legend();
    /** What an answer without a canvas has no use for. */
    this.ofCanvas = [this.figures.element, this.view.element, this.player.element, this.history.element, explained];
    this.element = h("div", { class: "canvas-panel" }, this.figures.element, this.note, h("div", { class: "beside" }, this.view.element, beside), this.player.element, this.holding, this.history.element, compact ? null : explained);
    this.draw = oncePerPicture(() => around(() => this.#draw()));
    this.player.update([], true);
  }

  /**
   * Shows an answer, or what has come of it by now.
   * @param {Recording} recording
   * @param {boolean} running
   */
  update(recording, running) {
    const fresh = recording !== this.recording;
    this.recording = recording;
    this.running = running;
    if (fresh) this.#letGo();
    if (fresh) this.index = 0;
    this.player.update(recording.frames, fresh);
    this.draw();
  }

  /** Shows no answer. */
  clear() {
    this.recording = null;
    this.#letGo();
    this.player.update([], true);
    this.draw();
  }

  /** @param {number} index */
  #show(index) {
    const frames = this.recording?.frames ?? [];
    if (frames[this.index]?.canvas !== frames[index]?.canvas) this.#letGo();
    this.index = index;
    this.draw();
  }

  #draw() {
    const { recording, index } = this;
    const frame = recording?.frames[index];
    this.note.hidden = Boolean(frame);
    for (const part of this.ofCanvas) part.hidden = recording?.tokenByToken ?? false;
    this.view.draw(recording, index, this.held);
    this.figures.show(recording, index);
    this.#drawHolding();
    if (!recording || !frame) {
      this.history.empty();
      if (recording) {
        this.note.textContent = emptyNote(recording, this.running, this.tell !== null);
        this.tell?.drawn?.(recording, index);
      }
      return;
    }
    if (this.pointed !== null && this.pointed < frame.tokens.length) this.history.show(recording, index, this.pointed);
    this.tell?.drawn?.(recording, index);
  }

  /** @param {number | null} position */
  #look(position) {
    if (position === null) return; // the last one stays, so that its history can be read
    this.pointed = position;
    this.draw();
  }

  /** @param {number} position */
  #hold(position) {
    const frame = this.recording?.frames[this.index];
    if (!frame || !this.tell) return;
    if (this.held.delete(position)) announce(`position ${position + 1} is free again`);
    else {
      this.held.set(position, { token: frame.tokens[position], piece: frame.pieces[position] });
      announce(`position ${position + 1} is held`);
    }
    this.draw();
  }

  #letGo() {
    this.held.clear();
    this.pointed = null;
    this.history.empty();
  }

  #drawHolding() {
    const { recording, index, held } = this;
    const frame = recording?.frames[index];
    const focused = this.holding.contains(document.activeElement);
    this.holding.hidden = !frame || held.size === 0;
    if (!recording || !frame || held.size === 0) {
      if (focused) this.view.list.focus({ preventScroll: true });
      fill(this.holding);
      delete this.holding.dataset.key;
      return;
    }
    const why = this.running ? "the answer is still being written" : obstacle(recording, index);
    const last = /** @type {number} */ ([...held.keys()].at(-1));
    const key = JSON.stringify([index, why, [...held]]);
    if (this.holding.dataset.key === key) return; // a text that is being typed stays
    this.holding.dataset.key = key;
    const other = h("input", { type: "text", id: "hold-instead", autocomplete: "off", value: held.get(last)?.piece ?? "" });
    const replace = () => this.#replace(last, other.value);
    other.addEventListener("keydown", (event) => event.key === "Enter" && replace());
    fill(
      this.holding,
      h("p", {}, `${held.size === 1 ? "1 token is" : `${held.size} tokens are`} held. `, why && `It cannot be gone on from here: ${why}.`),
      h("p", { class: "row" }, h("label", { for: "hold-instead" }, `At position ${last + 1} hold`), other, button("Change", replace)),
      h(
        "p", { class: "row" },
        button(`Go on from step ${frame.step}`, () => this.#goOn(), { class: "primary", disabled: Boolean(why) }),
        button("Let go", () => { this.#letGo(); this.draw(); }),
      ),
    );
    if (focused) other.focus();
  }

  /**
   * @param {number} position
   * @param {string} text
   */
  async #replace(position, text) {
    const { recording, index } = this;
    const frame = recording?.frames[index];
    if (!frame || !text || !this.tell) return;
    const { tokens, pieces } = await this.tell.tokenize(text);
    if (this.recording !== recording) return; // another answer is shown meanwhile
    tokens.forEach((token, place) => {
      if (position + place < frame.tokens.length) this.held.set(position + place, { token, piece: pieces[place] });
    });
    this.draw();
  }

  #goOn() {
    const { recording, index, held } = this;
    const seed = recording?.result?.seed;
    if (!recording || seed === undefined) return;
    const tokens = new Map([...held].map(([position, { token }]) => [position, token]));
    this.tell?.goOn(continuation(recording, index, tokens, seed));
  }
}

/**
 * What is said where no canvas can be shown.
 * @param {Recording} recording
 * @param {boolean} running
 * @param {boolean} settings whether there are settings to change
 */
function emptyNote(recording, running, settings) {
  if (recording.tokenByToken) return settings ? `${TOKEN_BY_TOKEN} The preset Canvases, in the settings, asks for one.` : TOKEN_BY_TOKEN;
  if (running) return "The request waits, or its prompt is being read.";
  if (recording.forgotten) return "The steps of this answer were let go to save memory. Ask again with the same seed to see them.";
  return "This answer has no steps to show.";
}
