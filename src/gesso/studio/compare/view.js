// @ts-check
import { chatBody } from "../api/body.js";
import { ApiFailure } from "../api/http.js";
import { differences } from "../edit/diff.js";
import { byStep } from "../run/figures.js";
import { CUT_OFF, SingleRun, STOPPED } from "../run/single.js";
import { chart } from "../ui/chart.js";
import { button, fill, h } from "../ui/dom.js";
import { exchange } from "../ui/focus.js";
import { takeLongTexts } from "../ui/paste.js";
import { Column } from "./column.js";
import { differencesOf } from "./differences.js";

/** @typedef {import("../run/recording.js").Recording} Recording */
/** @typedef {import("../structure/view.js").Page} Page */

/** Two answers to one message with one seed, beside each other. */
export class CompareView {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.single = new SingleRun(page.api);
    this.columns = [new Column("Left"), new Column("Right")];
    this.message = h("textarea", { id: "compare-message", rows: "3", dir: "auto" });
    this.message.value = "What is 481 + 296?";
    this.seed = h("input", { id: "compare-seed", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "drawn anew" });
    this.send = button("Compare", () => void this.#compare(), { class: "primary" });
    this.stop = button("Stop", () => this.single.stop(), { hidden: true });
    /** Settings of the page at the last request. @type {Record<string, any>} */
    this.ofPage = {};
    this.outcome = h("div", { class: "outcome" });
    takeLongTexts(this.message);
    this.element = h(
      "section", { class: "page", "aria-label": "Compare" },
      h("label", { for: "compare-message" }, "Message to both"), this.message,
      h(
        "div", { class: "actions" }, this.send, this.stop, h("label", { for: "compare-seed" }, "Seed of both"), this.seed,
        h("span", { class: "dim" }, "They run one after the other, so that neither takes time from the other."),
      ),
      h("div", { class: "columns" }, this.columns.map((column) => column.element)), this.outcome,
    );
  }

  /**
   * Tells what the server has.
   * @param {{id: string}[]} models
   * @param {import("../settings/fields.js").OptionRow[]} options
   */
  build(models, options) {
    this.columns.forEach((column, number) => {
      const chosen = column.model.value;
      const first = column.form.fields.size === 0;
      fill(column.model, models.map(({ id }) => h("option", { value: id }, id)));
      if (models.some(({ id }) => id === chosen)) column.model.value = chosen;
      column.form.build(options);
      if (!first) return;
      if (number === 1) column.form.preset("Token by token");
      else if (options.some((row) => row.field === "diffusion.mode" && row.default !== "canvas")) column.form.preset("Canvases");
    });
  }

  async #compare() {
    if (this.single.running) return;
    if (!this.message.value.trim()) {
      this.message.focus();
      return;
    }
    this.page.begin();
    for (const column of this.columns) column.form.recheck();
    const special = this.page.special();
    /** @type {Record<string, any>[]} */
    let bodies;
    try {
      bodies = this.#bodies();
    } catch (error) {
      this.page.failed(error, () => {});
      return;
    }
    fill(this.outcome);
    for (const column of this.columns) column.clear();
    this.#busy(true);
    try {
      const requests = this.columns.map((column, number) => ({
        body: bodies[number], special,
        show: (/** @type {Recording} */ recording, /** @type {boolean} */ running) => column.show(recording, running),
      }));
      if (await this.single.all(requests)) this.#tell();
      else this.#unfinished(STOPPED);
    } catch (error) {
      this.#unfinished(CUT_OFF);
      if (!(error instanceof ApiFailure)) throw error;
      // They run in their order, so the last one that has begun is the one that failed.
      const column = this.columns.findLast(({ recording }) => recording);
      this.page.failed(column?.refused(error, this.ofPage) ?? error, () => void this.#compare());
    } finally {
      this.#busy(false);
    }
  }

  /** @param {string} message */
  #unfinished(message) {
    for (const column of this.columns) column.unfinished(message);
  }

  /** The requests of both sides: their own settings before the page's, and one seed. */
  #bodies() {
    const { system, settings } = this.page.choices();
    this.ofPage = settings;
    const text = this.seed.value.trim() || String(settings.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]);
    const seed = Number(text);
    if (!Number.isSafeInteger(seed) || seed < 0) throw new Error("The seed must be a whole number, at least 0.");
    this.seed.value = text;
    const messages = [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: this.message.value }];
    return this.columns.map((column) => chatBody({ model: column.model.value, messages, settings: { ...settings, seed, ...column.values() } }));
  }

  /** @param {boolean} running */
  #busy(running) {
    if (running) exchange(this.stop, this.send);
    else exchange(this.send, this.stop);
  }

  #tell() {
    const [left, right] = this.columns.map((column) => column.recording);
    if (!left?.result || !right?.result) return;
    const pairs = /** @type {const} */ ([["left", left], ["right", right]]);
    const series = (/** @type {(recording: Recording) => number[]} */ take) =>
      pairs.map(([name, recording], look) => ({ name, look, values: take(recording) })).filter(({ values }) => values.length);
    const charts = [
      { title: "Mean entropy by step", unit: "nats", series: series((one) => byStep(one).entropy) },
      { title: "Accepted share by step", unit: "of the canvas", series: series((one) => byStep(one).accepted), most: 1 },
      { title: "Steps by canvas", unit: "steps", series: series((one) => one.result?.denoising_steps ?? []), bars: true },
      { title: "Time to the end of each canvas", unit: "seconds", series: series((one) => one.blocks.map((block) => block.seconds)) },
    ];
    const parts = differences(left.text, right.text).map(({ kind, text }) => (kind === "same" ? text : h(kind === "gone" ? "del" : "ins", {}, text.replaceAll("\n", "\u21b5\n"))));
    fill(
      this.outcome, differencesOf(left, right),
      h("h2", {}, "From the left answer to the right one"), h("pre", { class: "difference", dir: "auto", tabindex: "0" }, parts),
      h("div", { class: "charts" }, charts.filter((one) => one.series.length).map(chart)),
    );
  }
}
