// @ts-check
import { announce } from "../ui/announce.js";
import { fill, h } from "../ui/dom.js";
import { frameBefore, marksOf } from "../run/recording.js";
import { cellTexts } from "./cells.js";
import { bandOf } from "./scale.js";

/** @typedef {import("../run/recording.js").Recording} Recording */

/**
 * Draws a canvas, one cell for each position. One cell at a time is the active one: the arrow keys move it, and what
 * is done with the keyboard is done to it.
 */
export class CanvasView {
  /**
   * @param {{look: (position: number | null) => void, hold: (position: number) => void}} tell what to do when a
   *   position is looked at, by pointer or keyboard, and when it is to be held or let go
   */
  constructor(tell) {
    this.tell = tell;
    this.before = h("span", { class: "before", dir: "auto" });
    this.list = h("span", {
      class: "cells", role: "listbox", tabindex: "0", "aria-label": "Canvas, position by position",
      "aria-multiselectable": "true", dir: "auto", onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    });
    this.element = h("div", { class: "canvas" }, this.before, this.list);
    /** @type {HTMLElement[]} */
    this.cells = [];
    this.active = 0;
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
   */
  draw(recording, index, held) {
    const frame = recording?.frames[index];
    if (!recording || !frame) {
      fill(this.before);
      fill(this.list);
      this.cells = [];
      return;
    }
    const committed = recording.blocks.slice(0, frame.blocks).map((block) => block.reasoning + block.text).join("");
    if (this.before.textContent !== committed) this.before.textContent = committed;
    this.#resize(frame.tokens.length);
    const before = frameBefore(recording, index);
    const special = frame.tokens.map((token, place) => !held.has(place) && recording.special.has(token));
    const texts = cellTexts(frame.pieces.map((piece, place) => (special[place] ? null : held.get(place)?.piece ?? piece)));
    this.cells.forEach((cell, place) => {
      const { accepted, renoised, changed, pinned, forced } = marksOf(frame, before, place);
      const names = ["cell", bandOf(frame.entropy[place]), renoised ? "renoised" : accepted ? "accepted" : "redrawn"];
      if (changed) names.push("changed");
      if (pinned || held.has(place)) names.push("pinned");
      if (forced) names.push("forced");
      if (special[place]) names.push("special");
      if (texts[place] === "") names.push("joined");
      const style = names.join(" ");
      if (cell.className !== style) cell.className = style;
      const text = texts[place] ?? "\u00b7";
      if (cell.textContent !== text) cell.textContent = text;
      const selected = String(held.has(place));
      if (cell.getAttribute("aria-selected") !== selected) cell.setAttribute("aria-selected", selected);
    });
  }

  /** @param {number} width */
  #resize(width) {
    while (this.cells.length > width) this.cells.pop()?.remove();
    while (this.cells.length < width) {
      const id = `cell-${this.cells.length}`;
      const cell = h("span", { id, role: "option", "aria-selected": "false" });
      this.cells.push(cell);
      this.list.append(cell);
    }
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
    if (event.key in moves) this.#activate(Math.max(0, Math.min(this.cells.length - 1, moves[event.key])), false);
    else if (event.key === " " || event.key === "Enter") this.#activate(this.active, true);
    else return;
    event.preventDefault();
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
