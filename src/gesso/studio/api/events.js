// @ts-check
/** Server-sent events, as the format has them. */

/** @typedef {{event: string, data: string}} ServerEvent `event` is empty where it has no name */

/** Takes a stream's text in any pieces and gives the events that are whole. */
export class EventParser {
  #rest = "";
  #event = "";
  /** @type {string[]} */
  #data = [];

  /**
   * @param {string} text
   * @returns {ServerEvent[]}
   */
  push(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    /** @type {ServerEvent[]} */
    const events = [];
    for (const line of lines) this.#line(line, events);
    return events;
  }

  /**
   * @param {string} line
   * @param {ServerEvent[]} events
   */
  #line(line, events) {
    if (line === "") {
      if (this.#data.length) events.push({ event: this.#event, data: this.#data.join("\n") });
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
  }
}
