// @ts-check
import { Api, ApiFailure, asFailure } from "./api/http.js";
import { CanvasPanel } from "./canvas/panel.js";
import { toolsOf } from "./chat/calls.js";
import { Chat } from "./chat/chat.js";
import { Composer } from "./chat/composer.js";
import { Examples } from "./chat/examples.js";
import { keepWithTab } from "./chat/kept.js";
import { CompareView } from "./compare/view.js";
import { Editor } from "./edit/editor.js";
import { htmlOf, Preview, textAt } from "./preview/preview.js";
import { recordingOf } from "./run/trace.js";
import { SettingsForm } from "./settings/form.js";
import { choicesAt, keepChoices } from "./settings/kept.js";
import { linkTo, sharedIn } from "./settings/link.js";
import { StatePanel } from "./state/panel.js";
import { StructureView } from "./structure/view.js";
import { alertUser, announce, clearAlert } from "./ui/announce.js";
import { copyFor } from "./ui/copy.js";
import { askForKey, showRequest } from "./ui/dialogs.js";
import { byId, fill, h } from "./ui/dom.js";
import { fileButton, pageControls } from "./ui/controls.js";
import { belowAnswers, following } from "./ui/follow.js";
import { viewButtons } from "./ui/views.js";

const api = new Api();
const form = new SettingsForm(() => {});
/** @type {{id: string, special_token_ids: number[], examples?: string[], limits?: string}[]} */
let models = [];
/** @type {import("./settings/fields.js").OptionRow[]} */
let options = [];
/** What the server says of itself. @type {{modalities?: {vision: boolean}, max_images?: number, max_body_bytes?: number}} */
let props = {};
const [system, tools] = ["system", "tools"].map((id) => /** @type {HTMLTextAreaElement} */ (byId(id)));
/** @type {HTMLSelectElement} */
const model = byId("model");
let shared = choicesAt(location.hash);
/** Links that were taken already. */
const taken = new Set([location.hash]);
/** Why the server has told nothing yet. @type {ApiFailure | null} */
let refusal = null;

const special = () => models.find((card) => card.id === model.value)?.special_token_ids ?? [];
const preview = new Preview(byId("view-chat").dataset.preview);
const panel = new CanvasPanel({
  goOn: (body) => panel.recording && chat.goOn(panel.recording, body),
  drawn: (recording, index) => {
    const done = recording.result && index >= recording.frames.length - 1;
    preview.show(htmlOf(done ? recording.text : textAt(recording, index)));
  },
  tokenize: (text) => api.post("v1/tokenize", { prompt: text }).catch((error) => {
    failed(error, () => {});
    return { tokens: [], pieces: [] };
  }),
}, { beside: preview.element, around: (draw) => following(belowAnswers(panel.player.element), draw) });

/** What is chosen for every view. */
function choices() {
  if (!models.length) throw refusal ?? new Error("The server has not told its models yet.");
  return { model: model.value, system: system.value.trim(), settings: chosenSettings() };
}

/** What stands in the settings; where something there is wrong, they open, and the field gets the focus. */
function chosenSettings() {
  try {
    return form.values();
  } catch {
    byId("settings").open = true;
    return form.values();
  }
}

/** What is chosen for the chat, which has tools besides. */
function chatChoices() {
  const chosen = choices();
  try {
    const list = toolsOf(tools.value);
    return list.length ? { ...chosen, settings: { ...chosen.settings, tools: list } } : chosen;
  } catch (error) {
    byId("settings").open = true;
    tools.focus();
    throw error;
  }
}

const chat = new Chat({
  api,
  choices: chatChoices,
  special,
  show: (recording, running) => showCanvas(recording, running, "Canvas"),
  below: () => belowAnswers(panel.player.element),
  look: () => byId("canvas").scrollIntoView({ block: "nearest" }),
  request: (body) => showRequest(body, api.hasKey),
  failed,
  busy: (running) => {
    composer.busy(running);
    examples.element.hidden = true;
    if (running) begin();
  },
});

const composer = new Composer(chat, () => ({ model: model.value, sees: props.modalities?.vision === true, most: props.max_images ?? 1 }));

const examples = new Examples((text) => composer.suggest(text));

/** Takes away what was said of an earlier request. */
function begin() {
  clearAlert();
  form.recheck();
}

/** Shows examples of the chosen model where nothing has been said yet. */
function showExamples() {
  if (!chat.conversation.turns.length) examples.show(models.find((card) => card.id === model.value));
}

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
  if (failure.code === "model_not_found") {
    // The server was started anew with other models: with those that it has now, the next request can be answered.
    await learn().catch(() => {});
    alertUser(`${failure.message} Chosen now: ${model.value}.`);
    return;
  }
  const act = failure.status === 0 ? () => void learn().catch(() => {}).then(again) : again;
  const retry = failure.status === 0 || failure.status >= 429 ? { label: "Try again", act } : undefined;
  alertUser(failure.message, retry);
}

/** @param {string} reason */
async function useKey(reason) {
  let key = await askForKey(reason);
  // A server has no key with others, and a header cannot carry them all.
  while (/[^\x21-\x7e]/.test(key)) key = await askForKey("A key has no such characters.");
  if (!key) {
    alertUser("The server asks for a key.", { label: "Enter the key", act: () => void useKey(reason) });
    return;
  }
  api.useKey(key);
  await load();
}

/** Asks the server what it has. What is chosen by then stays; what the link holds is for the first time. */
async function learn() {
  const [list, table, told] = await Promise.all([api.get("v1/models"), api.get("v1/options"), api.get("props")]);
  models = list.data;
  refusal = null;
  props = told;
  api.maxBody = told.max_body_bytes ?? api.maxBody;
  options = table.data;
  const first = form.fields.size === 0;
  const chosen = first ? shared.model : model.value;
  form.build(options);
  compare?.build(models, options);
  fill(model, models.map((card) => h("option", { value: card.id }, card.id)));
  if (models.some((card) => card.id === chosen)) model.value = chosen;
  if (first) form.restore(shared.settings);
  showExamples();
}

/** Asks the server what it has, and tells how that went. */
async function load() {
  try {
    await learn();
    clearAlert();
    announce("ready");
    document.body.dataset.ready = "";
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    refusal = error;
    await failed(error, () => void load());
  }
}

/**
 * Takes a link that was opened where the page is open already, in the place of what was chosen. One that was taken before,
 * to which the browser goes back, leaves alone what was changed since.
 */
function follow() {
  if (!location.hash.includes("=")) return; // a place in the page
  const before = shared;
  shared = sharedIn(location.hash);
  const back = taken.has(location.hash);
  taken.add(location.hash);
  const kept = (/** @type {string} */ now, was = "", told = "") => (back && now !== was ? now : told);
  composer.prompt.value = kept(composer.prompt.value, before.prompt, shared.prompt);
  system.value = kept(system.value, before.system, shared.system);
  tools.value = kept(tools.value, before.tools, shared.tools);
  const texts = form.texts();
  const settings = [...form.fields.keys()].map((path) => [path, kept(texts[path] ?? "", before.settings[path], shared.settings[path])]);
  form.restore(Object.fromEntries(settings));
  const chosen = kept(model.value, before.model || model.value, shared.model);
  if (models.some((card) => card.id === chosen)) model.value = chosen;
  showExamples();
  announce("link opened");
}

/**
 * Shows an answer, or what has come of it by now, under a heading.
 * @param {import("./run/recording.js").Recording} recording
 * @param {boolean} running
 * @param {string} heading
 */
function showCanvas(recording, running, heading) {
  const shown = byId("canvas-heading");
  if (shown.textContent !== heading) shown.textContent = heading;
  panel.update(recording, running);
}

/** @param {File} file */
async function openTrace(file) {
  try {
    const recording = recordingOf(await file.text());
    if (chat.running) throw new Error("an answer is being written: stop it first");
    if (recording.tokenByToken) throw new Error("this answer was written token by token: there is no canvas to show");
    showCanvas(recording, false, `Canvas of ${file.name}`);
    clearAlert();
    announce(`${file.name} is open`);
  } catch (error) {
    alertUser(`${file.name}: ${/** @type {Error} */ (error).message}`);
  }
}

/** Shows the request that the message would be. */
function showNext() {
  try {
    showRequest(composer.request(), api.hasKey);
  } catch (error) {
    alertUser(/** @type {Error} */ (error).message);
  }
}

/** What a link holds, and what a tab keeps. Before the server has told what it has, some of it is not in the page yet. */
const typed = () => ({
  prompt: composer.prompt.value, system: system.value, tools: tools.value,
  model: model.value || shared.model, settings: form.fields.size ? form.texts() : shared.settings,
});

function copyLink() {
  const said = chat.conversation.turns.findLast((turn) => turn.role === "user");
  const prompt = composer.prompt.value || (said?.role === "user" ? said.text : "");
  const address = linkTo(location.href.split("#")[0], { ...typed(), prompt });
  history.replaceState(null, "", address);
  shared = sharedIn(location.hash);
  taken.add(location.hash);
  void copyFor(byId("link"), address, "In the address bar");
}

const view = {
  api, choices, special, begin,
  failed: (/** @type {any} */ error, /** @type {() => void} */ again) => void failed(asFailure(error), again),
  request: (/** @type {Record<string, any>} */ body) => showRequest(body, api.hasKey),
};
byId("view-edit").append(new Editor(view).element);
/** Views that are made when they are opened for the first time. */
let compare = /** @type {CompareView | null} */ (null);
let state = /** @type {StatePanel | null} */ (null);
let structure = /** @type {StructureView | null} */ (null);

/** @param {string} opened id of a view */
function open(opened) {
  clearAlert();
  if (opened === "view-structure" && !structure) byId(opened).append((structure = new StructureView(view)).element);
  if (opened === "view-state" && !state) byId(opened).append((state = new StatePanel(api)).element);
  if (opened === "view-compare" && !compare) {
    byId(opened).append((compare = new CompareView(view)).element);
    compare.build(models, options);
  }
  byId("settings").hidden = opened === "view-state";
  state?.show(opened === "view-state");
  structure?.show(opened === "view-structure");
}

viewButtons(open);
byId("chat").prepend(chat.view.element);
byId("chat").append(examples.element);
model.addEventListener("change", showExamples);
byId("canvas").append(panel.element);
byId("settings-form").append(form.element);
// What was typed while the page was on its way stays.
composer.prompt.value ||= shared.prompt;
system.value ||= shared.system;
tools.value ||= shared.tools;
addEventListener("hashchange", follow);
byId("link").addEventListener("click", copyLink);
byId("request").addEventListener("click", showNext);
fileButton(byId("open-trace"), byId("trace-file"), (file) => void openTrace(file));
keepWithTab(chat); // first: behind it the request of an answer that is being written is cut
keepChoices(typed);
pageControls();
void load();
