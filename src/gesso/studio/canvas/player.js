// @ts-check
import { button, h } from "../ui/dom.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4];
/** Milliseconds that a step is shown at most: the wait for a prompt to be read is not played. */
const LONGEST = 1000;
/** The same of steps whose times are not known. */
const UNTIMED = 250;

/** Moves over the frames of an answer: a slider, play and pause, a speed. It follows what comes until it is moved. */
export class Player {
  /** @param {(index: number) => void} show */
  constructor(show) {
    this.show = show;
    this.index = 0;
    this.follows = true;
    /** @type {{seconds: number}[]} */
    this.frames = [];
    /** @type {number | undefined} */
    this.timer = undefined;
    this.slider = h("input", {
      type: "range", min: "0", max: "0", value: "0", "aria-label": "Step",
      oninput: () => this.#move(Number(this.slider.value)),
    });
    this.toggle = button("Play", () => this.#playOrPause(), { class: "play" });
    this.speed = h("select", { "aria-label": "Speed" }, SPEEDS.map((speed) => h("option", { value: speed, selected: speed === 1 }, `${speed}\u00d7`)));
    this.back = button("\u2039", () => this.#move(this.index - 1), { "aria-label": "Step back", class: "narrow" });
    this.forward = button("\u203a", () => this.#move(this.index + 1), { "aria-label": "Step forward", class: "narrow" });
    this.element = h("div", { class: "player" }, this.toggle, this.back, this.slider, this.forward, this.speed);
    this.length = 0;
  }

  /**
   * Tells of the frames that there are now.
   * @param {{seconds: number}[]} frames
   * @param {boolean} fresh whether they are those of another answer
   */
  update(frames, fresh) {
    this.frames = frames;
    if (fresh) {
      this.#pause();
      this.follows = true;
    }
    this.slider.max = String(Math.max(0, frames.length - 1));
    this.element.toggleAttribute("data-empty", frames.length === 0);
    // One step cannot be played.
    for (const control of [this.toggle, this.back, this.slider, this.forward, this.speed]) control.disabled = frames.length < 2;
    if (this.follows && frames.length) this.#go(frames.length - 1);
  }

  /** @param {number} index */
  #go(index) {
    this.index = index;
    this.slider.value = String(index);
    this.slider.setAttribute("aria-valuetext", `${index + 1} of ${this.frames.length}`);
    this.show(index);
  }

  /** @param {number} index */
  #move(index) {
    this.#pause();
    const last = this.frames.length - 1;
    if (last < 0) return;
    this.#go(Math.max(0, Math.min(last, index)));
    this.follows = this.index === last;
  }

  #playOrPause() {
    if (this.timer !== undefined) {
      this.#pause();
      return;
    }
    if (!this.frames.length) return;
    this.follows = false;
    this.toggle.textContent = "Pause";
    if (this.index >= this.frames.length - 1) this.#go(0);
    this.#next();
  }

  #next() {
    const wait = ((this.frames[this.index + 1]?.seconds ?? NaN) - this.frames[this.index].seconds) * 1000;
    if (!(wait >= 0)) {
      this.#pause();
      this.follows = this.index === this.frames.length - 1; // it has caught up with an answer that is being written
      return;
    }
    this.timer = window.setTimeout(() => {
      this.#go(this.index + 1);
      this.#next();
    }, Math.min(LONGEST, wait === 0 ? UNTIMED : Math.max(30, wait)) / Number(this.speed.value));
  }

  #pause() {
    window.clearTimeout(this.timer);
    this.timer = undefined;
    this.toggle.textContent = "Play";
  }
}
