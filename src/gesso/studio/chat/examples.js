// @ts-check
import { button, fill, h } from "../ui/dom.js";

/** Prompts of the kinds that the chosen model was measured on, until something is said. */
export class Examples {
  /** @param {(text: string) => void} choose takes one of them */
  constructor(choose) {
    this.choose = choose;
    this.element = h("section", { class: "examples", "aria-label": "Examples", hidden: true });
  }

  /**
   * Shows those of a model; nothing where there are none.
   * @param {{examples?: string[], limits?: string}} [model]
   */
  show({ examples = [], limits = "" } = {}) {
    const each = examples.map((text) => h("li", {}, button(text, () => this.choose(text), { dir: "auto" })));
    fill(this.element, h("p", { class: "dim" }, "What it was trained for, such as:"), h("ul", {}, each), limits && h("p", { class: "dim" }, limits));
    this.element.hidden = !examples.length;
  }
}
