// @ts-check
import { fill, h } from "../ui/dom.js";
import { chart } from "../ui/chart.js";
import { Look } from "./metrics.js";

/** Milliseconds between two looks while the view is open. */
const PAUSE = 2000;
/** Looks that are kept for the chart: five minutes. */
const KEPT = 150;
const BINARY = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** Shows what the server does: queue, running requests, caches, tokens a second. It asks only while it is looked at. */
export class StatePanel {
  /** @param {import("../api/http.js").Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Look[]} */
    this.looks = [];
    /** @type {number | undefined} */
    this.timer = undefined;
    this.open = false;
    this.asking = false;
    this.note = h("p", { class: "dim", role: "status" });
    this.cards = h("dl", { class: "cards" });
    this.chart = h("div", {});
    this.tables = h("div", { class: "tables" });
    this.element = h("section", { class: "page", "aria-label": "Server" }, h("h2", {}, "Server"), this.note, this.cards, this.chart, this.tables);
    document.addEventListener("visibilitychange", () => this.#next(0));
  }

  /** @param {boolean} open whether the view is looked at */
  show(open) {
    this.open = open;
    this.#next(0);
  }

  /** @param {number} wait milliseconds */
  #next(wait) {
    window.clearTimeout(this.timer);
    if (this.open && !document.hidden) this.timer = window.setTimeout(() => void this.#ask(), wait);
  }

  async #ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      const look = new Look(await this.api.text("metrics"), performance.now() / 1000);
      // A counter that fell belongs to another process: what was before is no part of its chart.
      if (this.looks.length && look.rate("steps_total", this.looks[this.looks.length - 1]) === null) this.looks = [];
      this.looks = [...this.looks, look].slice(-KEPT);
      this.#draw(look, this.looks.at(-2) ?? null);
      this.note.textContent = "";
    } catch (error) {
      this.note.textContent = `${/** @type {Error} */ (error).message} It is asked again every two seconds.`;
    }
    this.asking = false;
    this.#next(PAUSE);
  }

  /**
   * @param {Look} look
   * @param {Look | null} before
   */
  #draw(look, before) {
    const rate = (/** @type {string} */ name) => shown(look.rate(name, before), 1);
    const busy = look.get("engine_busy_seconds");
    const cards = [
      ["Engine", look.get("engine_up") === 1 ? (busy ? `in a pass for ${shown(busy, 1)} s` : "ready") : "has failed"],
      ["Running requests", shown(look.get("requests_running"))],
      ["In the queue", shown(look.get("requests_waiting"))],
      ["Expected wait", `${shown(look.get("expected_wait_seconds"), 1)} s`],
      ["Tokens a second", rate("completion_tokens_total")],
      ["Passes a second", rate("steps_total")],
      ["Tokens a forward pass", shown(look.get("tokens_per_forward"), 2)],
      ["Prompt tokens from the cache", `${shown(look.get("cache_hit_share") * 100)} %`],
      ["Caches of running requests", size(look.get("cache_bytes"))],
      ["Stored prefixes", size(look.get("prefix_bytes"))],
      ["Bound on both", size(look.get("kv_memory_bytes"))],
      ["Compiled constraints", size(look.get("constraint_bytes") + look.get("constraint_table_bytes"))],
    ];
    fill(this.cards, cards.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    const rates = this.looks.slice(1).map((now, number) => now.rate("completion_tokens_total", this.looks[number]) ?? 0);
    fill(this.chart, chart({ title: "Tokens a second, last five minutes", unit: "", series: [{ name: "tokens a second", values: rates }], wide: this.chart.clientWidth > 600, ends: [`${shown(look.seconds - this.looks[0].seconds)} s ago`, "now"] }));
    const requests = look.all("requests_total").map(({ labels, value }) => [labels.outcome, shown(value)]);
    const routes = look.all("http_requests_total").map(({ labels, value }) => [labels.route, labels.status, shown(value)]);
    fill(this.tables, table("Requests by how they ended", ["Outcome", "Requests"], requests), table("HTTP requests", ["Route", "Status", "Requests"], routes));
  }
}

/**
 * @param {string} title
 * @param {string[]} heads
 * @param {string[][]} rows
 */
function table(title, heads, rows) {
  const body = rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))));
  const head = h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, h("caption", {}, title), h("thead", {}, head), h("tbody", {}, body)));
}

/**
 * @param {number | null} number
 * @param {number} [digits] behind the point
 */
function shown(number, digits = 0) {
  return number === null ? "\u2013" : number.toLocaleString("en", { maximumFractionDigits: digits });
}

/** @param {number} bytes */
function size(bytes) {
  const power = Math.min(BINARY.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${shown(bytes / 2 ** (10 * power), 1)} ${BINARY[power]}`;
}
