// @ts-check
import { figuresAt, saved } from "../run/figures.js";
import { h } from "../ui/dom.js";

const NAMES = ["Canvas", "Step", "Temperature", "Mean entropy", "Accepted", "Tokens/s", "Passes"];

/** Where an answer stands at a step, in a line of figures. Their elements stay, and their texts are set. */
export class Figures {
  constructor() {
    this.texts = NAMES.map(() => document.createTextNode(""));
    this.element = h("dl", { class: "figures" }, NAMES.map((name, place) => h("div", {}, h("dt", {}, name), h("dd", {}, this.texts[place]))));
    this.element.toggleAttribute("data-empty", true);
  }

  /**
   * @param {import("../run/recording.js").Recording | null} recording
   * @param {number} index
   */
  show(recording, index) {
    const frame = recording?.frames[index];
    this.element.toggleAttribute("data-empty", !frame);
    if (!recording || !frame) return;
    const now = figuresAt(recording, index);
    const values = [
      `${now.canvas}`, `${now.step} of ${now.steps}`, now.temperature.toFixed(3), `${now.entropy.toFixed(3)} nats`,
      `${now.accepted} of ${now.width}`, now.rate > 0 ? now.rate.toFixed(0) : "\u2013", `${now.passes} (${saved(now.saved)})`,
    ];
    values.forEach((value, place) => {
      if (this.texts[place].data !== value) this.texts[place].data = value;
    });
  }
}
