// @ts-check
/** The canvas of a trace that stands in the page itself. */
import { CanvasPanel } from "../canvas/panel.js";
import { summaryOf } from "../run/figures.js";
import { recordingOf } from "../run/trace.js";
import { byId, fill, h } from "../ui/dom.js";

const recording = recordingOf(byId("trace").textContent ?? "", true);
const panel = new CanvasPanel(null);
byId("prompt").textContent = recording.prompt;
fill(byId("canvas"), panel.element, recording.result ? h("p", { class: "dim" }, summaryOf(recording).join(" \u00b7 ")) : null);
panel.update(recording, false);
