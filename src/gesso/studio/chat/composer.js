// @ts-check
import { announce } from "../ui/announce.js";
import { byId } from "../ui/dom.js";
import { exchange } from "../ui/focus.js";
import { takeLongTexts } from "../ui/paste.js";
import { Pictures } from "./pictures.js";

/** @typedef {import("./conversation.js").Picture} Picture */
/** @typedef {import("./conversation.js").Start} Start */

/** The field in which a message is written, its images, and whether its answer starts from the last one. */
export class Composer {
  /**
   * @param {import("./chat.js").Chat} chat
   * @param {() => {model: string, sees: boolean, most: number}} server what it takes
   */
  constructor(chat, server) {
    this.chat = chat;
    /** @type {HTMLTextAreaElement} */
    this.prompt = byId("prompt");
    /** @type {HTMLInputElement} */
    this.follow = byId("follow");
    /** @type {HTMLInputElement} */
    this.strength = byId("strength");
    this.pictures = new Pictures({ list: byId("pictures"), file: byId("picture-file"), field: byId("composer") }, server);
    byId("send").disabled = false; // as it is until a message can be taken
    byId("composer").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.send();
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    takeLongTexts(this.prompt);
    byId("stop").addEventListener("click", () => chat.stop());
    byId("new").addEventListener("click", () => this.#exchange());
    byId("add-picture").addEventListener("click", () => this.pictures.choose());
    this.follow.addEventListener("change", () => { this.strength.disabled = !this.follow.checked; });
    this.strength.addEventListener("input", () => {
      byId("strength-shown").textContent = `${Math.round(Number(this.strength.value) * 100)} %`;
    });
  }

  /** @param {boolean} running whether an answer is being written */
  busy(running) {
    const [stop, send] = [byId("stop"), byId("send")];
    if (running) exchange(stop, send);
    else exchange(send, stop);
    this.#offer(running);
  }

  /**
   * Shows what can be done with the conversation as it is.
   * @param {boolean} running
   */
  #offer(running) {
    const { turns, aside, lastText } = this.chat.conversation;
    byId("follow-place").hidden = running || !lastText;
    byId("new").hidden = running || !(turns.length || aside.length);
    byId("new").textContent = turns.length ? "New conversation" : "Back to the last conversation";
  }

  #exchange() {
    this.chat.exchange();
    this.#offer(false);
    const { turns } = this.chat.conversation;
    announce(turns.length ? "back in the last conversation" : "a new conversation: the last one is kept until something is said");
    // Examples come with the choice of a model, where nothing has been said.
    if (turns.length) byId("chat").querySelector(".examples").hidden = true;
    else byId("model").dispatchEvent(new Event("change"));
    this.prompt.focus();
  }

  /** What the canvases of the next answer start from. @returns {Start | null} */
  get start() {
    const text = this.chat.conversation.lastText;
    return this.follow.checked && text ? { text, strength: Number(this.strength.value) } : null;
  }

  /**
   * Puts a message there, to be sent or changed.
   * @param {string} text
   */
  suggest(text) {
    this.prompt.value = text;
    this.prompt.focus();
  }

  send() {
    const text = this.prompt.value;
    const { chosen } = this.pictures;
    if (!text.trim() && !chosen.length) return;
    if (!this.chat.ask(text, chosen, this.start)) return;
    this.pictures.take();
    this.prompt.value = "";
    // A phone's keyboard, which goes with the focus of the field, would cover the canvas.
    if (matchMedia("(pointer: coarse)").matches) byId("stop").focus({ preventScroll: true });
    else this.prompt.focus({ preventScroll: true });
  }

  /** The request that the message would be. */
  request() {
    return this.chat.next(this.prompt.value, this.pictures.chosen, this.start);
  }
}
