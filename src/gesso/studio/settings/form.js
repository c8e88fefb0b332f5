// @ts-check
import { fill, h } from "../ui/dom.js";
import { isSetting, shownBounds, shownDefault, textOf, valueOf } from "./fields.js";

/** @typedef {import("./fields.js").OptionRow} OptionRow */

/** In a preset: the field is left to the model. */
const LEFT = null;
const OWN = {
  "diffusion.entropy_bound": LEFT, "diffusion.stability_threshold": LEFT, "diffusion.max_denoising_steps": LEFT,
  temperature: LEFT, "diffusion.mode": LEFT,
};

/** Settings that go well together. Options that the server does not have are left out. */
const PRESETS = /** @type {Record<string, Record<string, any>>} */ ({
  "The model's own": OWN,
  "Careful: few tokens a step": { "diffusion.entropy_bound": 0.02, "diffusion.stability_threshold": 2 },
  "Quick: many tokens a step": { "diffusion.entropy_bound": 0.5, "diffusion.max_denoising_steps": 12 },
  "Likeliest tokens": { temperature: 0 },
  Canvases: { "diffusion.mode": "canvas" },
  "Token by token": { "diffusion.mode": "ar" },
});

/** A form made of the table of options. What is left empty is left to the server. */
export class SettingsForm {
  /**
   * @param {() => void} changed
   * @param {string} [prefix] of the ids of its fields, where a page has several forms
   */
  constructor(changed, prefix = "") {
    this.changed = changed;
    this.prefix = prefix;
    /** @type {Map<string, {row: OptionRow, input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement, error: HTMLElement}>} */
    this.fields = new Map();
    /** What the last preset wrote, which the next one takes back. @type {Record<string, string>} */
    this.written = {};
    this.presets = h(
      "select", { id: `${prefix}preset`, onchange: () => this.#preset() },
      h("option", { value: "" }, "Choose\u2026"), Object.keys(PRESETS).map((name) => h("option", { value: name }, name)),
    );
    this.groups = h("div", { class: "groups" });
    this.element = h("div", { class: "settings" }, h("p", { class: "row" }, h("label", { for: `${prefix}preset` }, "Preset"), this.presets), this.groups);
  }

  /**
   * Builds the form.
   * @param {OptionRow[]} rows
   */
  build(rows) {
    const kept = this.texts();
    this.fields.clear();
    /** @type {Map<string, HTMLElement[]>} */
    const groups = new Map();
    for (const row of rows.filter(isSetting)) groups.set(row.group, [...(groups.get(row.group) ?? []), this.#field(row)]);
    fill(this.groups, [...groups].map(([name, fields]) => h("fieldset", {}, h("legend", {}, name), fields)));
    for (const [path, text] of Object.entries(kept)) this.#set(path, text);
  }

  /** @param {OptionRow} row */
  #field(row) {
    const id = `${this.prefix}option-${row.name}`;
    const facts = [shownBounds(row), row.owner && `of the ${row.owner}`].filter(Boolean).join("; ");
    const common = { id, "aria-describedby": `${id}-help ${id}-error`, oninput: () => this.#check(row.field) };
    const input = control(row, common);
    const error = h("span", { class: "error", id: `${id}-error` });
    this.fields.set(row.field, { row, input, error });
    return h(
      "div", { class: "field" },
      h("label", { for: id }, row.name.replaceAll("_", " "), row.unit ? h("span", { class: "dim" }, ` (${row.unit})`) : null), input,
      h("span", { class: "help dim", id: `${id}-help` }, row.help, facts && ` (${facts})`), error,
    );
  }

  /** @param {string} path */
  #check(path) {
    const field = this.fields.get(path);
    if (!field) return;
    let message = "";
    try {
      if (field.input.value !== "") valueOf(field.row, field.input.value);
    } catch (error) {
      message = /** @type {Error} */ (error).message;
    }
    this.refuse(path, message);
    this.changed();
  }

  /**
   * Marks a field as wrong; an empty message takes the mark away.
   * @param {string} path of the field
   * @param {string} message
   * @returns {boolean} whether there is such a field
   */
  refuse(path, message) {
    const field = this.fields.get(path);
    if (!field) return false;
    field.error.textContent = message;
    field.input.toggleAttribute("data-wrong", message !== "");
    if (message) field.input.setAttribute("aria-invalid", "true");
    else field.input.removeAttribute("aria-invalid");
    return true;
  }

  /** Takes away what a server said of fields in an earlier request; what is plainly wrong stays marked. */
  recheck() {
    for (const path of this.fields.keys()) this.#check(path);
  }

  /**
   * What is set, by the paths of fields.
   * @returns {Record<string, any>}
   * @throws {Error} a field is wrong, which gets the focus
   */
  values() {
    /** @type {Record<string, any>} */
    const values = {};
    for (const [path, { row, input }] of this.fields) {
      if (input.value === "") continue;
      try {
        values[path] = valueOf(row, input.value);
      } catch (error) {
        input.focus();
        throw error;
      }
    }
    return values;
  }

  /** @returns {Record<string, string>} */
  texts() {
    return Object.fromEntries([...this.fields].filter(([, { input }]) => input.value !== "").map(([path, { input }]) => [path, input.value]));
  }

  /**
   * Sets fields by their texts, and empties the others.
   * @param {Record<string, string>} texts
   */
  restore(texts) {
    for (const path of this.fields.keys()) this.#set(path, texts[path] ?? "");
  }

  /**
   * @param {string} path
   * @param {string} text
   */
  #set(path, text) {
    const field = this.fields.get(path);
    if (!field) return;
    field.input.value = text;
    this.#check(path);
  }

  #preset() {
    this.preset(this.presets.value);
    this.presets.value = "";
  }

  /**
   * Sets what goes together under a name. Of the rest it empties only what the preset before it wrote: what a person
   * typed stays.
   * @param {string} name
   */
  preset(name) {
    const chosen = PRESETS[name];
    if (!chosen) return;
    for (const [path, text] of Object.entries(this.written)) if (this.fields.get(path)?.input.value === text) this.#set(path, "");
    this.written = {};
    for (const [path, value] of Object.entries(chosen)) {
      const field = this.fields.get(path);
      if (!field) continue;
      this.written[path] = value === LEFT ? "" : textOf(field.row, value);
      this.#set(path, this.written[path]);
    }
  }
}

/**
 * @param {OptionRow} row
 * @param {Record<string, any>} common
 */
function control(row, common) {
  const placeholder = shownDefault(row);
  if (row.type === "switch" || row.type === "choice") {
    const words = row.type === "switch" ? ["on", "off"] : row.words ?? [];
    return h("select", common, h("option", { value: "" }, `default: ${placeholder}`), words.map((word) => h("option", { value: word }, word)));
  }
  if (row.type === "texts") return h("textarea", { ...common, rows: "2", placeholder: `${placeholder}; one a line` });
  const numeric = row.type === "integer" ? "numeric" : row.type === "number" ? "decimal" : null;
  return h("input", { ...common, type: "text", autocomplete: "off", inputmode: numeric, placeholder });
}
