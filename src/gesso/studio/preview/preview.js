// @ts-check
import { fill, h } from "../ui/dom.js";

/** Milliseconds between two pages at least: each one is a document of its own. */
const PAUSE = 250;
const FENCE = /```(?:html|svg|xml)[^\n]*\n([\s\S]*?)(?:\n```|$)/i;
const BEGINNING = /<(?:!doctype\s+html|html|head|body|svg|style|main|div|table|h1|p|ul|form)[\s>]/i;

/**
 * The HTML of an answer: what stands between its fences, or from its first element on; null where there is none.
 * @param {string} text
 * @returns {string | null}
 */
export function htmlOf(text) {
  const fenced = FENCE.exec(text);
  if (fenced) return fenced[1];
  const found = BEGINNING.exec(text);
  return found ? text.slice(found.index) : null;
}

/**
 * The text of a canvas as it stands at a step.
 * @param {import("../run/recording.js").Recording} recording
 * @param {number} index
 * @returns {string}
 */
export function textAt(recording, index) {
  const frame = recording.frames[index];
  if (!frame) return recording.text;
  const before = recording.blocks.slice(0, frame.blocks).map((block) => block.text).join("");
  return before + frame.pieces.filter((_, place) => !recording.special.has(frame.tokens[place])).join("");
}

/**
 * Shows HTML that a model wrote, rendered, in a frame without an origin. It is made of one text at a time, and the
 * newest wins.
 */
export class Preview {
  /** @param {string} frame the address of the document that shows it */
  constructor(frame) {
    this.frame = frame;
    this.place = h("div", { class: "preview-place" });
    this.element = h(
      "details", { class: "preview", hidden: true, ontoggle: () => this.#draw() },
      h("summary", {}, "Preview of the page that stands in the canvas"), this.place,
      h("p", { class: "dim" }, "It has no origin of its own: scripts in it run, and see nothing but itself. It can make no requests and no calls by WebRTC; a frame that it makes inside itself could still make such a call."),
    );
    this.html = "";
    this.shown = "";
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** @param {string | null} html null where there is none */
  show(html) {
    this.element.hidden = html === null;
    this.html = html ?? "";
    if (this.timer === undefined) this.#draw();
  }

  #draw() {
    if (!this.element.open || this.html === this.shown || this.element.hidden) return;
    this.shown = this.html;
    const html = this.html;
    const frame = h("iframe", { src: this.frame, sandbox: "allow-scripts", title: "Preview of the page", referrerpolicy: "no-referrer" });
    // No other document can answer from a frame without an origin, and what is sent is no secret.
    frame.addEventListener("load", () => frame.contentWindow?.postMessage(html, "*"), { once: true });
    fill(this.place, frame);
    this.timer = window.setTimeout(() => {
      this.timer = undefined;
      this.#draw();
    }, PAUSE);
  }
}
