// @ts-check
import { ApiFailure } from "../api/http.js";

/** Milliseconds of silence at the keyboard after which a verdict is asked for. */
const PAUSE = 300;

/** @typedef {{usable: boolean, accepts: boolean | null, explanation: string | null, ignored: string[], states: number}} Explanation */

/** Asks for verdicts while something is typed: of several in a row the last one counts, and the others are given up. */
export class Verdicts {
  /**
   * @param {import("../api/http.js").Api} api
   * @param {(explanation: Explanation) => void} told
   * @param {(failure: ApiFailure) => void} failed
   */
  constructor(api, told, failed) {
    this.api = api;
    this.told = told;
    this.failed = failed;
    /** @type {AbortController | null} */
    this.abort = null;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** Gives up what was asked. */
  cancel() {
    window.clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /**
   * @param {Record<string, any>} outputs
   * @param {string} text empty: the constraint alone is judged
   */
  ask(outputs, text) {
    this.cancel();
    this.timer = window.setTimeout(() => void this.#ask(outputs, text), PAUSE);
  }

  /**
   * @param {Record<string, any>} outputs
   * @param {string} text
   */
  async #ask(outputs, text) {
    const abort = new AbortController();
    this.abort = abort;
    try {
      const body = { structured_outputs: outputs, ...(text === "" ? {} : { text }) };
      const explanation = await this.api.post("v1/explain", body, abort.signal);
      if (this.abort === abort) this.told(explanation);
    } catch (error) {
      if (/** @type {any} */ (error)?.name === "AbortError" || this.abort !== abort) return;
      if (!(error instanceof ApiFailure)) throw error;
      this.failed(error);
    }
  }
}
