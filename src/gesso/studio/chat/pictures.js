// @ts-check
import { alertUser, announce } from "../ui/announce.js";
import { button, fill, h } from "../ui/dom.js";
import { keepingFocus } from "../ui/focus.js";

/** @typedef {import("./conversation.js").Picture} Picture */

/** The images of the message that is being written: chosen, pasted or dropped. */
export class Pictures {
  /**
   * @param {{list: HTMLElement, file: HTMLInputElement, field: HTMLElement}} places
   * @param {() => {model: string, sees: boolean, most: number}} server what it takes
   */
  constructor({ list, file, field }, server) {
    this.list = list;
    this.field = field;
    this.server = server;
    /** @type {Picture[]} */
    this.chosen = [];
    this.file = file;
    file.addEventListener("change", async () => {
      await this.add([...(file.files ?? [])]);
      file.value = "";
    });
    field.addEventListener("paste", (event) => this.#take(event, event.clipboardData));
    field.addEventListener("dragover", (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
    field.addEventListener("drop", (event) => this.#take(event, event.dataTransfer));
  }

  /** Opens the browser's choice of files, or says why there is none. */
  choose() {
    if (this.#refused()) return;
    this.file.click();
  }

  /** Hands the images over; there are none then. */
  take() {
    const chosen = this.chosen;
    this.chosen = [];
    this.#draw();
    return chosen;
  }

  /** @param {File[]} files */
  async add(files) {
    if (!files.length || this.#refused()) return;
    for (const file of files) {
      if (this.chosen.length >= this.server().most) {
        alertUser(`A message may have ${this.server().most} images.`);
        break;
      }
      if (!file.type.startsWith("image/")) alertUser(`${file.name} is no image.`);
      else this.chosen.push({ name: file.name, url: await read(file) });
    }
    this.#draw();
    announce(`${this.chosen.length} images go with the message`);
  }

  #refused() {
    const { model, sees } = this.server();
    if (!sees) alertUser(`${model} takes no images: its checkpoint has no vision tower.`);
    return !sees;
  }

  /**
   * @param {Event} event
   * @param {DataTransfer | null} data
   */
  #take(event, data) {
    const files = [...(data?.files ?? [])];
    if (!files.length || (event.type === "paste" && textOf(data, files))) return;
    event.preventDefault();
    void this.add(files);
  }

  #draw() {
    this.list.hidden = this.chosen.length === 0;
    fill(this.list, this.chosen.map((picture) => h(
      "li", {}, h("img", { class: "picture", src: picture.url, alt: picture.name }),
      button("Take away", () => {
        this.chosen = this.chosen.filter((other) => other !== picture);
        keepingFocus(() => this.field, () => this.#draw(), "Add an image");
      }, { "aria-label": `Take ${picture.name} away` }),
    )));
  }
}

/**
 * The text that comes with files. A spreadsheet or a word processor copies a picture of it besides, which nobody means;
 * a file manager copies the names of its files.
 * @param {DataTransfer | null} data
 * @param {File[]} files
 */
function textOf(data, files) {
  const text = data?.getData("text").trim() ?? "";
  return files.some(({ name }) => text.endsWith(name)) ? "" : text;
}

/**
 * @param {File} file
 * @returns {Promise<string>} a data URL
 */
function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}
