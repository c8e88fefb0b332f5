// @ts-check
import { fill, h } from "../ui/dom.js";
import { historyOf } from "../run/recording.js";
import { bandOf } from "./scale.js";

/** @typedef {import("../run/recording.js").Recording} Recording */

/** Shows what one position held, step by step. */
export class HistoryView {
  /**
   * @param {boolean} holds whether tokens can be held
   * @param {string} of what canvas, where a page has several
   */
  constructor(holds, of) {
    this.holds = holds;
    this.element = h("div", { class: "history", tabindex: "0", role: "region", "aria-label": of ? `History of a position, ${of}` : "History of a position" });
    this.empty();
  }

  empty() {
    if (this.element.querySelector(".hint")) return;
    const hint = "Point at a token, or move to it with the arrow keys, to see what stood there before.";
    fill(this.element, h("p", { class: "dim hint" }, this.holds ? `${hint} Click or press Enter to hold it.` : hint));
  }

  /**
   * @param {Recording} recording
   * @param {number} index
   * @param {number} position
   */
  show(recording, index, position) {
    const { moments, settled } = historyOf(recording, index, position);
    const last = moments.at(-1);
    if (!last) return this.empty();
    const title = `Position ${position + 1} of canvas ${recording.frames[index].canvas + 1}: this token since step ${settled}`;
    const rows = moments.map((moment) =>
      h(
        "tr", {}, h("td", {}, String(moment.step)),
        h("td", {}, h("span", { class: `cell ${bandOf(moment.entropy)} ${moment.accepted ? "accepted" : "redrawn"}`, dir: "auto" }, name(recording, moment))),
        h("td", {}, moment.entropy.toFixed(3)), h("td", {}, moment.accepted ? "accepted" : "drawn anew"),
      ),
    );
    const heads = ["Step", "Token", "Nats", ""].map((text) => (text ? h("th", { scope: "col" }, text) : h("td")));
    const table = h("table", {}, h("caption", {}, title), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows.reverse()));
    fill(this.element, table);
  }
}

/**
 * A token as the table shows it: what is blank is quoted.
 * @param {Recording} recording
 * @param {import("../run/recording.js").Moment} moment
 */
function name(recording, moment) {
  if (recording.special.has(moment.token)) return moment.piece || `token ${moment.token}`;
  return moment.piece.trim() === "" ? JSON.stringify(moment.piece) : moment.piece;
}
