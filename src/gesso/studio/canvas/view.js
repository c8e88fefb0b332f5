// @ts-check
import { announce } from "../ui/announce.js";
import { h } from "../ui/dom.js";
import { frameBefore, marksOf } from "../run/recording.js";
import { cellTexts } from "./cells.js";
import { bandOf } from "./scale.js";

/** @typedef {import("../run/recording.js").Recording} Recording */

/** Cells below those in sight that are drawn with every picture, so that a short move of the wheel finds them drawn. */
const MARGIN = 64;
/** Milliseconds after which what is farther below is drawn too: nothing in sight depends on it. */
const BELOW = 500;

/**
 * Draws a canvas, one cell for each position. One cell at a time is the active one: the arrow keys move it, and what
 * is done with the keyboard is done to it. What a cell shows is remembered, so that a picture touches only the cells
 * that are different from the picture before; and only those down to the last one in sight, the rest twice a second.
 */
export class CanvasView {
  /**
   * @param {{look: (position: number | null) => void, hold: (position: number) => void}} tell what to do when a
   *   position is looked at, by pointer or keyboard, and when it is to be held or let go
   * @param {string} prefix of the ids of cells
   */
  constructor(tell, prefix) {
    this.tell = tell;
    this.prefix = prefix;
    this.before = h("span", { class: "before", dir: "auto" });
    this.list = h("span", {
      class: "cells", role: "listbox", tabindex: "0", "aria-label": "Canvas, position by position",
      "aria-multiselectable": "true", dir: "auto", onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    });
    this.element = h("div", { class: "canvas" }, this.before, this.list);
    /** @type {HTMLElement[]} */
    this.cells = [];
    /** @type {{text: Text, style: string, held: boolean}[]} What the cells show. */
    this.shown = [];
    this.committed = "";
    /** What is drawn. @type {Recording | null} */
    this.recording = null;
    this.active = 0;
    /** @type {number | undefined} Draws what is below. */
    this.below = undefined;
    /** @type {() => void} */
    this.drawAll = () => {};
    this.element.addEventListener("scroll", () => this.below !== undefined && this.drawAll(), { passive: true });
    this.list.addEventListener("pointerover", (event) => this.tell.look(this.#place(event)));
    this.list.addEventListener("pointerleave", () => this.tell.look(null));
    this.list.addEventListener("click", (event) => {
      const place = this.#place(event);
      if (place !== null) this.#activate(place, true);
    });
    this.list.addEventListener("focus", () => this.#activate(Math.min(this.active, this.cells.length - 1), false));
    this.list.addEventListener("blur", () => this.tell.look(null));
  }

  /**
   * Draws a frame; null empties the canvas.
   * @param {Recording | null} recording
   * @param {number} index
   * @param {Map<number, {token: number, piece: string}>} held what the person holds
   * @param {boolean} [whole] whether what is out of sight is drawn at once
   */
  draw(recording, index, held, whole = false) {
    const frame = recording?.frames[index];
    const committed = frame ? recording.blocks.slice(0, frame.blocks).map((block) => block.reasoning + block.text).join("") : "";
    const width = frame?.tokens.length ?? 0;
    const moves = this.committed !== committed || this.recording !== recording;
    const follows = moves && (this.recording !== recording || this.#seen());
    const count = whole || moves || width !== this.cells.length ? width : this.#inSight();
    this.recording = recording;
    if (this.committed !== committed) this.before.textContent = this.committed = committed;
    this.#resize(width);
    this.drawAll = () => {
      window.clearTimeout(this.below);
      this.below = undefined;
      this.draw(recording, index, held, true);
    };
    if (count === width) {
      window.clearTimeout(this.below);
      this.below = undefined;
    } else this.below ??= window.setTimeout(() => this.drawAll(), BELOW);
    if (!recording || !frame) return;
    const before = frameBefore(recording, index);
    /** @type {(string | null)[]} */
    const pieces = frame.pieces.map((piece, place) => held.get(place)?.piece ?? (recording.special.has(frame.tokens[place]) ? null : piece));
    const texts = cellTexts(pieces);
    for (let place = 0; place < count; place++) {
      const text = texts[place] ?? "\u00b7";
      const kept = held.has(place);
      const style = styleOf(frame, before, place, kept, pieces[place] === null, text === "");
      const shown = this.shown[place];
      if (shown.style !== style) this.cells[place].className = shown.style = style;
      if (shown.text.data !== text) shown.text.data = text;
      if (shown.held !== kept) this.cells[place].setAttribute("aria-selected", String((shown.held = kept)));
    }
    if (follows) this.#follow();
  }

  /** Whether some of the cells are in sight: whoever has scrolled away from them reads what stands before. */
  #seen() {
    const [box, cells] = [this.element, this.list].map((part) => part.getBoundingClientRect());
    return cells.top < box.bottom && cells.bottom > box.top;
  }

  /** Scrolls to the cells, below a text that grows with every canvas: to all of them, or to the first where they do not fit. */
  #follow() {
    const [box, cells, first] = [this.element, this.list, this.cells[0] ?? this.list].map((part) => part.getBoundingClientRect());
    const room = this.element.clientHeight;
    const above = first.top - box.top - this.element.clientTop; // a cell's own lines stand out of its line of text
    if (!this.committed) this.element.scrollTop = 0;
    else if (cells.height > room || above < 0) this.element.scrollTop += Math.floor(above);
    else if (cells.bottom > box.top + room) this.element.scrollTop += cells.bottom - box.top - room;
  }

  /** How many cells are to be drawn now. It is asked while the page is laid out, before anything is changed. */
  #inSight() {
    const { cells, element } = this;
    if (element.scrollHeight <= element.clientHeight) return cells.length;
    const { bottom } = element.getBoundingClientRect();
    let [first, last] = [0, cells.length];
    while (first < last) {
      const middle = (first + last) >> 1;
      if (cells[middle].getBoundingClientRect().top > bottom) last = middle;
      else first = middle + 1;
    }
    return Math.min(cells.length, first + MARGIN);
  }

  /** @param {number} width */
  #resize(width) {
    while (this.cells.length > width) {
      this.cells.pop()?.remove();
      this.shown.pop();
    }
    if (this.cells.length === width) return;
    const fresh = document.createDocumentFragment();
    while (this.cells.length < width) {
      const text = document.createTextNode("");
      const cell = h("span", { id: `${this.prefix}-${this.cells.length}`, role: "option", "aria-selected": "false" }, text);
      this.cells.push(cell);
      this.shown.push({ text, style: "", held: false });
      fresh.append(cell);
    }
    this.list.append(fresh);
  }

  /** @param {Event} event */
  #place(event) {
    const place = this.cells.indexOf(/** @type {HTMLElement} */ (event.target));
    return place < 0 ? null : place;
  }

  /**
   * @param {number} place
   * @param {boolean} hold
   */
  #activate(place, hold) {
    if (place < 0 || place >= this.cells.length) return;
    this.cells[this.active]?.removeAttribute("data-active");
    this.active = place;
    const cell = this.cells[place];
    cell.setAttribute("data-active", "");
    cell.scrollIntoView({ block: "nearest" });
    this.list.setAttribute("aria-activedescendant", cell.id);
    if (hold) this.tell.hold(place);
    this.tell.look(place);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, number>} */
    const moves = {
      ArrowRight: this.active + 1, ArrowLeft: this.active - 1, Home: 0, End: this.cells.length - 1,
      ArrowDown: this.#line(1), ArrowUp: this.#line(-1),
    };
    const holds = event.key === " " || event.key === "Enter";
    if (!holds && !(event.key in moves)) return;
    event.preventDefault();
    this.#activate(holds ? this.active : Math.max(0, Math.min(this.cells.length - 1, moves[event.key])), holds);
    if (holds) return; // who holds the token announces it
    const cell = this.cells[this.active];
    if (cell) announce(`position ${this.active + 1}: ${cell.textContent?.trim() || "blank"}, ${cell.className.split(" ").slice(1).join(", ")}`);
  }

  /**
   * The cell nearest above or below the active one.
   * @param {1 | -1} direction
   */
  #line(direction) {
    const here = this.cells[this.active]?.getBoundingClientRect();
    if (!here) return this.active;
    let best = this.active;
    let least = Infinity;
    this.cells.forEach((cell, place) => {
      const box = cell.getBoundingClientRect();
      const down = (box.top - here.top) * direction;
      if (down < here.height / 2) return;
      const distance = down * 1000 + Math.abs(box.left - here.left);
      if (distance < least) [best, least] = [place, distance];
    });
    return best;
  }
}

/**
 * The classes of a cell.
 * @param {import("../run/recording.js").Frame} frame
 * @param {import("../run/recording.js").Frame | null} before
 * @param {number} place
 * @param {boolean} held
 * @param {boolean} special
 * @param {boolean} joined whether its text stands in the cell before
 */
function styleOf(frame, before, place, held, special, joined) {
  const { accepted, renoised, changed, pinned, forced } = marksOf(frame, before, place);
  let style = `cell ${bandOf(frame.entropy[place])} ${renoised ? "renoised" : accepted ? "accepted" : "redrawn"}`;
  if (changed) style += " changed";
  if (pinned || held) style += " pinned";
  if (forced) style += " forced";
  if (special) style += " special";
  if (joined) style += " joined";
  return style;
}
