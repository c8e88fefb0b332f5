// @ts-check
import { Api, ApiFailure } from "./api/http.js";
import { chatBody } from "./api/body.js";
import { CanvasPanel } from "./canvas/panel.js";
import { Chat } from "./chat/chat.js";
import { Editor } from "./edit/editor.js";
import { recordingOf } from "./run/trace.js";
import { SettingsForm } from "./settings/form.js";
import { linkTo, sharedIn } from "./settings/link.js";
import { alertUser, announce, clearAlert } from "./ui/announce.js";
import { askForKey, showRequest } from "./ui/dialogs.js";
import { byId, fill, h } from "./ui/dom.js";
import { takeLongTexts } from "./ui/paste.js";

const api = new Api();
const form = new SettingsForm(() => {});
/** @type {{id: string, special_token_ids: number[]}[]} */
let models = [];
/** @type {HTMLTextAreaElement} */
const prompt = byId("prompt");
/** @type {HTMLTextAreaElement} */
const system = byId("system");
/** @type {HTMLSelectElement} */
const model = byId("model");
const shared = sharedIn(location.hash);

const panel = new CanvasPanel({
  goOn: (body) => panel.recording && chat.goOn(panel.recording, body),
  tokenize: (text) => api.post("v1/tokenize", { prompt: text }).catch((error) => {
    failed(error, () => {});
    return { tokens: [], pieces: [] };
  }),
});

const chat = new Chat({
  api,
  choices: () => {
    if (!models.length) throw new Error("The server has not told its models yet.");
    return { model: model.value, system: system.value.trim(), settings: form.values() };
  },
  special: () => models.find((card) => card.id === model.value)?.special_token_ids ?? [],
  show: (recording, running) => panel.update(recording, running),
  request: (body) => showRequest(body, api.hasKey),
  failed,
  busy: (running) => {
    byId("stop").hidden = !running;
    byId("send").hidden = running;
    if (running) clearAlert();
  },
});

/**
 * Tells what went wrong: at the setting that is to blame, by asking for the key, or as a message.
 * @param {ApiFailure} failure
 * @param {() => void} again
 */
async function failed(failure, again) {
  if (failure.code === "invalid_api_key") {
    await useKey(api.hasKey ? "The server does not know this key." : "The server asks for a key.");
    return;
  }
  if (failure.param && form.refuse(failure.param, failure.message)) byId("settings").open = true;
  const retry = failure.status === 0 || failure.status >= 429 ? { label: "Try again", act: again } : undefined;
  alertUser(failure.message, retry);
}

/** @param {string} reason */
async function useKey(reason) {
  const key = await askForKey(reason);
  if (!key) return;
  api.useKey(key);
  await load();
}

/** Asks the server what it has. */
async function load() {
  try {
    const [list, options] = await Promise.all([api.get("v1/models"), api.get("v1/options")]);
    models = list.data;
    form.build(options.data);
    fill(model, models.map((card) => h("option", { value: card.id }, card.id)));
    if (models.some((card) => card.id === shared.model)) model.value = shared.model;
    form.restore(shared.settings);
    clearAlert();
    announce("ready");
    document.body.dataset.ready = "";
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    await failed(error, () => void load());
  }
}

function send() {
  const text = prompt.value;
  if (text.trim() && chat.ask(text)) {
    prompt.value = "";
    prompt.focus();
  }
}

/** @param {File | undefined} file */
async function openTrace(file) {
  if (!file) return;
  try {
    const recording = recordingOf(await file.text());
    panel.update(recording, false);
    byId("canvas-heading").textContent = `Canvas of ${file.name}`;
    announce(`${file.name} is open`);
  } catch (error) {
    alertUser(`${file.name}: ${/** @type {Error} */ (error).message}`);
  }
}

/** @returns {Record<string, any> | null} */
function requestNow() {
  try {
    const { model: id, system: rules, settings } = chat.page.choices();
    const messages = chat.conversation.before(chat.conversation.turns.length, rules);
    return chatBody({ model: id, messages: [...messages, { role: "user", content: prompt.value }], settings });
  } catch (error) {
    alertUser(/** @type {Error} */ (error).message);
    return null;
  }
}

function copyLink() {
  const settings = form.texts();
  const said = chat.conversation.turns.find((turn) => turn.role === "user");
  const text = prompt.value || (said?.role === "user" ? said.text : "");
  const address = linkTo(location.href.split("#")[0], { prompt: text, system: system.value, model: model.value, settings });
  history.replaceState(null, "", address);
  const done = () => announce("the link is in the address bar and copied");
  navigator.clipboard?.writeText(address).then(done, () => announce("the link is in the address bar"));
}

const editor = new Editor({
  api,
  choices: () => {
    const { model: id, settings } = chat.page.choices();
    return { model: id, settings };
  },
  failed: (error, again) => void failed(error instanceof ApiFailure ? error : new ApiFailure(error.message, { status: 400 }), again),
});

const views = [...document.querySelectorAll("[data-view]")].map((opener) => /** @type {HTMLElement} */ (opener));
for (const opener of views) {
  opener.addEventListener("click", () => {
    for (const other of views) {
      byId(other.dataset.view ?? "").hidden = other !== opener;
      if (other === opener) other.setAttribute("aria-current", "page");
      else other.removeAttribute("aria-current");
    }
  });
}
byId("view-edit").append(editor.element);
byId("chat").prepend(chat.view.element);
byId("canvas").append(panel.element);
byId("settings-form").append(form.element);
prompt.value = shared.prompt;
system.value = shared.system;
byId("composer").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  send();
});
prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
takeLongTexts(prompt);
byId("stop").addEventListener("click", () => chat.stop());
byId("link").addEventListener("click", copyLink);
byId("request").addEventListener("click", () => {
  const body = requestNow();
  if (body) showRequest(body, api.hasKey);
});
byId("open-trace").addEventListener("click", () => byId("trace-file").click());
byId("trace-file").addEventListener("change", async (/** @type {any} */ event) => {
  await openTrace(event.target.files[0]);
  event.target.value = "";
});
byId("theme").addEventListener("change", (/** @type {any} */ event) => {
  document.documentElement.dataset.theme = event.target.value;
});
for (const closer of document.querySelectorAll("[data-close]")) {
  closer.addEventListener("click", () => closer.closest("dialog")?.close());
}
void load();
