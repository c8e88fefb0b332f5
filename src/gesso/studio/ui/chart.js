// @ts-check
/** Charts as SVG. Colour tells the series apart, and dashes or a hatch say the same without colour. */
import { h } from "./dom.js";

/** @typedef {{name: string, values: number[], look?: number}} Series `values[k]` stands at place k + 1 */

const SPACE = "http://www.w3.org/2000/svg";
const [HEIGHT, LEFT, BOTTOM, TOP] = [180, 44, 22, 8];
/** Widths of a page's margins and of the narrowest chart: one that is wider than its page would be drawn with small texts. */
const [SIDES, NARROWEST] = [60, 240];
/** Points of a line up to which each has a dot. */
const DOTS = 40;

/**
 * Series as lines, or as bars beside each other.
 * @param {{title: string, unit: string, series: Series[], bars?: boolean, most?: number, ends?: [string, string],
 *   wide?: boolean}} given `most` is the top of the scale, where it is known; `ends` stand below the first place and the
 *   last one instead of their numbers
 */
export function chart({ title, unit, series, bars = false, most = 0, ends, wide = false }) {
  const WIDTH = Math.max(NARROWEST, Math.min(wide ? 960 : 420, innerWidth - SIDES));
  const values = series.flatMap((one) => one.values);
  const top = rounded(Math.max(most, ...values, 0));
  const places = Math.max(1, ...series.map((one) => one.values.length));
  const across = (/** @type {number} */ place) => LEFT + ((WIDTH - LEFT - 6) * (place + 0.5)) / places;
  const up = (/** @type {number} */ value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const parts = [0, top / 2, top].map((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: up(value), y2: up(value) }),
    svg("text", { x: LEFT - 6, y: up(value) + 4, "text-anchor": "end" }, label(value)),
  ]);
  const anchor = (/** @type {number} */ place) => (ends ? (place ? "end" : "start") : across(place) > WIDTH - 20 ? "end" : "middle");
  const names = [...new Set([0, places - 1])].map((place) =>
    svg("text", { x: across(place), y: HEIGHT - 6, "text-anchor": anchor(place) }, ends ? ends[place && 1] : String(place + 1)),
  );
  const drawn = series.map((one, number) => {
    const look = `series series-${one.look ?? number}`;
    const line = () => svg("polyline", { class: look, points: one.values.map((value, place) => `${across(place).toFixed(1)},${up(value).toFixed(1)}`).join(" ") });
    const dots = () => (one.values.length > DOTS ? [] : one.values.map((value, place) => svg("circle", { class: look, cx: across(place), cy: up(value), r: 3 })));
    if (!bars) return [line(), ...dots()];
    const room = (WIDTH - LEFT - 6) / places;
    const width = Math.min(40, (room * 0.8) / series.length);
    return one.values.map((value, place) => {
      const left = across(place) + (number - series.length / 2) * width;
      return svg("rect", { class: look, x: left, y: up(value), width: Math.max(1, width - 2), height: Math.max(0.5, up(0) - up(value)) });
    });
  });
  const image = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${summary(series, unit)}` }, ...parts.flat(), ...names, ...drawn.flat());
  const keys = series.length > 1 && h("ul", { class: "keys" }, series.map((one, number) => h("li", {}, key(one.look ?? number, bars), ` ${one.name}`)));
  return h("figure", { class: "chart" }, h("figcaption", {}, title, unit ? h("span", { class: "dim" }, ` (${unit})`) : null), image, keys);
}

/**
 * The sign of a series in the list of them.
 * @param {number} number
 * @param {boolean} bars
 */
function key(number, bars) {
  const look = `series series-${number}`;
  const sign = bars ? svg("rect", { class: look, x: 1, y: 3, width: 22, height: 8 }) : svg("line", { class: look, x1: 0, x2: 24, y1: 7, y2: 7 });
  return svg("svg", { viewBox: "0 0 24 14", class: "key", "aria-hidden": "true" }, sign);
}

/**
 * What the chart says to whoever does not see it.
 * @param {Series[]} series
 * @param {string} unit
 */
function summary(series, unit) {
  const told = series.map(({ name, values }) => {
    const [first, last] = [values[0], values.at(-1)];
    return first === undefined || last === undefined ? `${name} has none` : `${name} from ${label(first)} to ${label(last)} over ${values.length}`;
  });
  return told.join("; ") + (unit && ` ${unit}`);
}

/** @param {number} value */
function label(value) {
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1).replace(".0", "");
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

/**
 * The least of 1, 2, 2.5, 5 times a power of ten that is not below a value.
 * @param {number} value
 */
function rounded(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 2.5, 5].find((step) => step * power >= value * 0.999) ?? 10) * power;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
function svg(tag, attributes, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SPACE, tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}
