// @ts-check
import { button, fill, h } from "../ui/dom.js";
import { keepingFocus } from "../ui/focus.js";
import { patch } from "../ui/patch.js";
import { count, summaryOf } from "../run/figures.js";
import { callsOf, resultsOf } from "./calls.js";
import { markdown } from "./markdown.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */
/** @typedef {import("./conversation.js").Variant} Variant */
/** @typedef {import("../run/recording.js").Recording} Recording */
/**
 * What a person may do with a turn.
 * @typedef {object} Actions
 * @property {() => void} stop
 * @property {(turn: number, sameSeed: boolean) => void} retry
 * @property {(turn: number, text: string) => boolean} edit whether it was taken
 * @property {(variant: Variant) => void} show its canvas
 * @property {(variant: Variant) => void} request shows it as curl and Python
 * @property {(variant: Variant) => void} save its trace
 * @property {(turn: number, chosen: number) => void} choose another answer
 * @property {(results: import("./conversation.js").ToolResult[]) => void} giveResults of the tools that the last answer calls
 */

/** Characters of a message that are shown; all of it is sent. */
const SHOWN = 20_000;

/** Draws a conversation. */
export class ConversationView {
  /**
   * @param {Conversation} conversation
   * @param {Actions} actions
   */
  constructor(conversation, actions) {
    this.conversation = conversation;
    this.actions = actions;
    this.element = h("ol", { class: "turns", "aria-label": "Conversation" });
    /** Earlier messages that are being edited: their texts as they are typed, by turn. @type {Map<number, string>} */
    this.drafts = new Map();
    /** What is typed as the results of an answer's calls. @type {WeakMap<Recording, string[]>} */
    this.typed = new WeakMap();
    /** Answers whose reasoning is unfolded. @type {WeakSet<Recording>} */
    this.unfolded = new WeakSet();
    /** Another answer that is begun once it is confirmed that later messages go. @type {{turn: number, label: string, act: () => void} | null} */
    this.asked = null;
  }

  /** Draws all turns, as for an answer that begins: what was asked about the ones before is past. */
  draw() {
    this.asked = null;
    for (const turn of this.drafts.keys()) if (turn >= this.conversation.turns.length) this.drafts.delete(turn);
    const focused = [...this.element.children].findIndex((part) => part.contains(document.activeElement));
    keepingFocus(() => this.element.children[focused], () => fill(this.element, this.conversation.turns.map((_, turn) => this.#turn(turn))));
  }

  /**
   * Draws one turn anew, such as the answer that is being written.
   * @param {number} turn
   * @param {string} [instead] how the name of the control begins that gets the focus where the one that has it goes
   */
  redraw(turn, instead) {
    const old = this.element.children[turn];
    if (old) keepingFocus(() => this.element.children[turn], () => old.replaceWith(this.#turn(turn)), instead);
    else this.draw();
  }

  /**
   * Draws anew what has changed of an answer since it was begun, and leaves the rest alone.
   * @param {number} turn
   */
  grow(turn) {
    const old = /** @type {HTMLElement | undefined} */ (this.element.children[turn]);
    if (!old) return this.draw();
    const fresh = this.#turn(turn);
    keepingFocus(() => old, () => patch(old, fresh));
    Object.assign(old.dataset, fresh.dataset);
  }

  /**
   * Says below an answer what would go with another one, and has that confirmed.
   * @param {number} turn
   * @param {string} label of the button that confirms it
   * @param {() => void} act
   */
  confirm(turn, label, act) {
    const before = this.asked;
    this.asked = { turn, label, act };
    if (before && before.turn !== turn) this.redraw(before.turn);
    this.redraw(turn);
    /** @type {HTMLElement | null} */ (this.element.children[turn].querySelector(".actions .primary"))?.focus();
  }

  /** @param {number} number */
  #turn(number) {
    const turn = this.conversation.turns[number];
    if (turn.role === "tool") return resultsOf(turn.results);
    if (turn.role === "user") return this.drafts.has(number) ? this.#editor(number) : this.#said(number, turn.text, turn.pictures);
    return this.#answer(number, turn.variants, turn.chosen);
  }

  /**
   * @param {number} number
   * @param {string} text
   * @param {import("./conversation.js").Picture[]} pictures
   */
  #said(number, text, pictures) {
    const edit = button("Edit", () => {
      this.drafts.set(number, text);
      this.redraw(number);
      this.element.children[number].querySelector("textarea")?.focus();
    });
    const more = text.length > SHOWN ? h("p", { class: "dim" }, `and ${count(text.length - SHOWN, "more character")}`) : null;
    return h("li", { class: "turn user" }, h("h2", {}, "You"), pictures.map(({ name, url }) => h("img", { class: "picture", src: url, alt: name })), h("p", { class: "said", dir: "auto" }, text.slice(0, SHOWN)), more, h("div", { class: "actions" }, edit));
  }

  /** @param {number} number */
  #editor(number) {
    const later = this.#later(number + 1);
    const area = h("textarea", { rows: "3", "aria-label": "Your message", dir: "auto" });
    area.value = this.drafts.get(number) ?? "";
    area.addEventListener("input", () => this.drafts.set(number, area.value));
    const close = () => {
      this.drafts.delete(number);
      this.redraw(number, "Edit");
    };
    const send = () => {
      if (area.value.trim() && this.actions.edit(number, area.value)) close();
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    return h("li", { class: "turn user" }, h("h2", {}, "You"), area, later, h("div", { class: "actions" }, button("Send", send, { class: "primary" }), button("Cancel", close)));
  }

  /** @param {Recording} recording */
  #reasoning(recording) {
    const keep = () => {
      if (folded.open) this.unfolded.add(recording);
      else this.unfolded.delete(recording);
    };
    const folded = h(
      "details", { class: "reasoning", open: this.unfolded.has(recording), ontoggle: keep },
      h("summary", {}, "Reasoning"), h("p", { class: "said", dir: "auto" }, recording.reasoning),
    );
    return folded;
  }

  /** @param {Recording} recording */
  #typed(recording) {
    const typed = this.typed.get(recording) ?? [];
    this.typed.set(recording, typed);
    return typed;
  }

  /**
   * What goes with another answer; nothing where it is the last one.
   * @param {number} answer
   */
  #later(answer) {
    const later = this.conversation.turns.length - answer - 1;
    return later > 0 ? h("p", { class: "dim" }, `${count(later, "later message")} will go.`) : null;
  }

  /**
   * @param {number} number
   * @param {{label: string, act: () => void}} asked
   */
  #confirmation(number, { label, act }) {
    const close = () => {
      this.asked = null;
      this.redraw(number, label);
    };
    const confirm = () => {
      close();
      act();
    };
    return h("div", {}, this.#later(number), h("div", { class: "actions" }, button(label, confirm, { class: "primary" }), button("Cancel", close)));
  }

  /**
   * @param {number} number
   * @param {Variant[]} variants
   * @param {number} chosen
   */
  #answer(number, variants, chosen) {
    const variant = variants[chosen];
    if (!variant) return h("li", { class: "turn assistant" });
    const { recording, state, error } = variant;
    const title = recording.model || "Answer";
    return h(
      "li", { class: "turn assistant", "data-state": state },
      h("h2", { dir: "auto" }, title, state === "running" ? h("span", { class: "dim" }, " is writing") : null),
      recording.reasoning ? this.#reasoning(recording) : null,
      h("div", { class: "answer" }, markdown(recording.text)),
      callsOf(recording.result?.calls ?? [], number === this.conversation.turns.length - 1 && state === "done" ? this.actions.giveResults : null, this.#typed(recording)),
      (recording.result?.warnings ?? []).map((text) => h("p", { class: "warning" }, text)),
      state === "stopped" ? h("p", { class: "warning" }, "Stopped: the answer ends here, unfinished.") : null,
      state === "failed" ? h("p", { class: "warning" }, error) : null,
      recording.result ? h("p", { class: "dim" }, summaryOf(recording).join(" \u00b7 ")) : null,
      this.asked?.turn === number ? this.#confirmation(number, this.asked) : this.#actions(number, variants, chosen),
    );
  }

  /**
   * @param {number} number
   * @param {Variant[]} variants
   * @param {number} chosen
   */
  #actions(number, variants, chosen) {
    const variant = variants[chosen];
    const { actions } = this;
    const show = button("Canvas", () => actions.show(variant));
    if (variant.state === "running") return h("div", { class: "actions" }, button("Stop", actions.stop), show);
    const choose = (/** @type {number} */ to) => () => actions.choose(number, to);
    const others = variants.length > 1 && [
      button("\u2039", choose(chosen - 1), { class: "narrow", "aria-label": "Earlier answer", disabled: chosen === 0 }),
      h("span", { class: "dim" }, `${chosen + 1} of ${variants.length}`),
      button("\u203a", choose(chosen + 1), { class: "narrow", "aria-label": "Later answer", disabled: chosen === variants.length - 1 }),
    ];
    return h(
      "div", { class: "actions" }, others || null,
      variant.recording.result && button("Retry, same seed", () => actions.retry(number, true)),
      button("Retry, other seed", () => actions.retry(number, false)),
      show,
      button("Request", () => actions.request(variant)),
      variant.recording.result && !variant.recording.forgotten && button("Save trace", () => actions.save(variant)),
    );
  }
}
