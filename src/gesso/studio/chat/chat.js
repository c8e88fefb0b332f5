// @ts-check
import { chatBody } from "../api/body.js";
import { ApiFailure, asFailure, encoded } from "../api/http.js";
import { announce } from "../ui/announce.js";
import { byId, download, oncePerPicture } from "../ui/dom.js";
import { following, partlySeen } from "../ui/follow.js";
import { Recording } from "../run/recording.js";
import { traceOf } from "../run/trace.js";
import { Conversation, userMessage } from "./conversation.js";
import { run } from "../run/runner.js";
import { textOf } from "../run/single.js";
import { ConversationView } from "./view.js";

/** @typedef {import("./conversation.js").Variant} Variant */
/** @typedef {import("./conversation.js").Picture} Picture */
/** @typedef {import("./conversation.js").Start} Start */
/** Positions of frames that are kept, over all answers: some hundred megabytes. */
const MOST_POSITIONS = 2_000_000;

/**
 * What a conversation needs of the page.
 * @typedef {object} Page
 * @property {import("../api/http.js").Api} api
 * @property {() => {model: string, system: string, settings: Record<string, any>}} choices throws where a setting is wrong
 * @property {() => number[]} special ids of tokens that are no text
 * @property {(recording: Recording, running: boolean) => void} show the canvas
 * @property {() => void} look brings the canvas into sight, which stands below the conversation where the page is narrow
 * @property {() => HTMLElement} below stays in sight, if it is there, while an answer grows above it
 * @property {(body: Record<string, any>) => void} request shows a request
 * @property {(failure: ApiFailure, again: () => void) => void} failed tells the person what went wrong
 * @property {(running: boolean) => void} busy
 */

/** Runs a conversation: asks, stops, tries again. One answer is written at a time. */
export class Chat {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.conversation = new Conversation();
    this.view = new ConversationView(this.conversation, {
      stop: () => this.stop(),
      retry: (turn, sameSeed) => this.#retry(turn, sameSeed),
      edit: (turn, text) => this.#guarded(() => this.#answer(() => this.conversation.edit(turn, text))),
      show: (variant) => {
        this.#show(variant.recording, variant.state === "running");
        page.look();
      },
      request: (variant) => page.request(variant.recording.body ?? {}),
      save: (variant) => download("trace.jsonl", traceOf(variant.recording), "application/jsonl"),
      giveResults: (results) => this.#guarded(() => this.#answer(() => this.conversation.giveResults(results))),
      choose: (turn, chosen) => this.#choose(turn, chosen),
    });
    /** @type {AbortController | null} */
    this.abort = null;
    /** The answer whose canvas was shown last. @type {Recording | null} */
    this.shown = null;
  }

  get running() {
    return this.abort !== null;
  }

  /**
   * Says something.
   * @param {string} text
   * @param {Picture[]} [pictures]
   * @param {Start | null} [start] what the answer's canvases start from
   * @returns {boolean} whether it was sent
   */
  ask(text, pictures = [], start = null) {
    return this.#guarded(() => {
      // What the server cannot take is told before the message leaves its field.
      encoded(this.next(text, pictures, start), this.page.api.maxBody);
      this.#answer(() => this.conversation.ask(text, pictures, start));
    });
  }

  /**
   * The request that a message would be.
   * @param {string} text
   * @param {Picture[]} [pictures]
   * @param {Start | null} [start]
   * @returns {Record<string, any>}
   */
  next(text, pictures = [], start = null) {
    const { model, system, settings } = this.page.choices();
    const messages = [...this.conversation.before(this.conversation.turns.length, system), userMessage(text, pictures)];
    return chatBody({ model, messages, settings: { ...settings, ...startOf(start) } });
  }

  /** Begins a new conversation; takes that back where nothing was said since. */
  exchange() {
    this.#guarded(() => {
      this.conversation.exchange();
      this.view.draw();
    });
  }

  /**
   * Goes on with a conversation of before.
   * @param {import("./conversation.js").Turn[]} turns
   */
  restore(turns) {
    this.conversation.turns = turns;
    this.view.draw();
    this.page.busy(false);
  }

  stop() {
    this.abort?.abort();
  }

  /**
   * Goes on with an answer from one of its steps: another answer of the same turn.
   * @param {Recording} recording
   * @param {Record<string, any>} body
   */
  goOn(recording, body) {
    const turn = this.conversation.turns.findIndex((part) => part.role === "assistant" && part.variants.some((variant) => variant.recording === recording));
    if (turn < 0) this.#guarded(() => void this.#run(this.conversation.ask(recording.prompt), body));
    else this.#again(turn, "Go on", () => void this.#run(turn, body));
  }

  /**
   * Begins another answer, and asks before it where later messages would go.
   * @param {number} turn
   * @param {string} label of the button that begins it
   * @param {() => void} act
   */
  #again(turn, label, act) {
    this.#guarded(() => {
      if (turn === this.conversation.turns.length - 1) act();
      else this.view.confirm(turn, label, () => this.#guarded(act));
    });
  }

  /**
   * @param {() => void} act
   * @returns {boolean}
   */
  #guarded(act) {
    if (this.running) {
      this.page.failed(new ApiFailure("An answer is being written: stop it first.", { status: 400 }), () => {});
      return false;
    }
    try {
      act();
      return true;
    } catch (error) {
      this.page.failed(asFailure(error), () => {});
      return false;
    }
  }

  /**
   * Asks for an answer.
   * @param {() => number} begin makes its turn, and is called only where no setting is wrong
   * @param {Record<string, any>} [more] settings that go before the page's
   */
  #answer(begin, more = {}) {
    const { model, system, settings } = this.page.choices();
    const turn = begin();
    const answer = this.conversation.turns[turn];
    const start = answer.role === "assistant" ? answer.start : null;
    const body = chatBody({ model, messages: this.conversation.before(turn, system), settings: { ...settings, ...startOf(start), ...more } });
    void this.#run(turn, body);
  }

  /**
   * @param {number} turn
   * @param {boolean} sameSeed
   */
  #retry(turn, sameSeed) {
    this.#again(turn, "Retry", () => {
      const answer = this.conversation.turns[turn];
      const last = answer.role === "assistant" ? answer.variants[answer.chosen]?.recording.result : null;
      // The page's own seed is not another one.
      this.#answer(() => turn, { seed: sameSeed && last ? last.seed : undefined });
    });
  }

  /**
   * @param {number} turn
   * @param {number} chosen
   */
  #choose(turn, chosen) {
    const answer = this.conversation.turns[turn];
    if (answer.role !== "assistant" || !answer.variants[chosen]) return;
    answer.chosen = chosen;
    this.view.redraw(turn);
    this.#show(answer.variants[chosen].recording, false);
  }

  /**
   * @param {Recording} recording
   * @param {boolean} running
   */
  #show(recording, running) {
    this.shown = recording;
    this.page.show(recording, running);
  }

  /**
   * Shows what has come of an answer, unless the canvas of another one is looked at meanwhile.
   * @param {Recording} recording
   */
  #follow(recording) {
    if (this.shown === recording) this.page.show(recording, this.running);
  }

  /**
   * @param {number} turn
   * @param {Record<string, any>} body
   */
  async #run(turn, body) {
    const recording = new Recording({ model: body.model, prompt: textOf(body.messages.at(-1)?.content), special: this.page.special(), body });
    const variant = this.conversation.begin(turn, recording);
    this.abort = new AbortController();
    const drawCanvas = oncePerPicture(() => this.#follow(recording));
    const { below } = this.page;
    const drawTurn = oncePerPicture(() => following(below(), () => this.view.grow(turn)));
    try {
      const near = partlySeen(byId("composer")) || partlySeen(below());
      this.page.busy(true);
      this.view.draw();
      this.#show(recording, true);
      if (near) below().scrollIntoView({ block: "nearest" });
      await run(this.page.api, recording, this.abort.signal, (kind) => {
        if (kind === "block") drawTurn();
        if (kind === "frame" || recording.tokenByToken) drawCanvas();
      });
      variant.state = "done";
      announce("the answer is there");
    } catch (error) {
      this.#ended(variant, turn, body, error);
    } finally {
      this.abort = null;
      this.conversation.shrink(MOST_POSITIONS);
      following(below(), () => {
        this.page.busy(false);
        this.view.grow(turn);
      });
      this.#follow(recording);
    }
  }

  /**
   * @param {Variant} variant
   * @param {number} turn
   * @param {Record<string, any>} body
   * @param {any} error
   */
  #ended(variant, turn, body, error) {
    if (error?.name === "AbortError") {
      variant.state = "stopped";
      announce("stopped");
      return;
    }
    variant.state = "failed";
    variant.error = error.message;
    if (!(error instanceof ApiFailure)) throw error;
    this.page.failed(error, () => this.#guarded(() => void this.#run(turn, body)));
  }
}

/**
 * Settings of an answer that starts from a text.
 * @param {Start | null} start
 * @returns {Record<string, any>}
 */
function startOf(start) {
  return start ? { prediction: { type: "content", content: start.text }, "diffusion.strength": start.strength } : {};
}
