// @ts-check
import { announce } from "../ui/announce.js";
import { oncePerPicture } from "../ui/dom.js";
import { Recording } from "./recording.js";
import { run } from "./runner.js";

/** What is said below an answer that has no end. */
export const STOPPED = "Stopped: the answer ends here, unfinished.";
export const CUT_OFF = "The answer ends here, unfinished.";

/** Runs one request at a time for a view that has no conversation. */
export class SingleRun {
  /** @param {import("../api/http.js").Api} api */
  constructor(api) {
    this.api = api;
    /** @type {AbortController | null} */
    this.abort = null;
  }

  get running() {
    return this.abort !== null;
  }

  stop() {
    this.abort?.abort();
  }

  /**
   * Runs requests one after the other, so that none takes time from another.
   * @param {{body: Record<string, any>, special: number[], show: (recording: Recording, running: boolean) => void}[]} requests
   *   `show` is called at most once a picture of the screen
   * @returns {Promise<boolean>} whether all came to their end; false where they were stopped
   */
  async all(requests) {
    this.abort = new AbortController();
    const { signal } = this.abort;
    try {
      for (const { body, special, show } of requests) {
        const recording = new Recording({ model: body.model, prompt: textOf(body.messages.at(-1)?.content), special, body });
        let running = true;
        const draw = oncePerPicture(() => show(recording, running));
        show(recording, true);
        try {
          await run(this.api, recording, signal, draw);
        } finally {
          running = false;
          show(recording, false);
        }
      }
      announce("the answer is there");
      return true;
    } catch (error) {
      if (/** @type {any} */ (error)?.name !== "AbortError") throw error;
      announce("stopped");
      return false;
    } finally {
      this.abort = null;
    }
  }
}

/**
 * The text of a message, whose images are left out.
 * @param {string | {type: string, text?: string}[] | undefined} content
 */
export function textOf(content) {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part) => part?.text ?? "").join("") : "";
}
