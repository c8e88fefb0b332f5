// @ts-check
/** Prometheus's text format, as far as the server writes it, and what its numbers say. */

/** @typedef {{name: string, labels: Record<string, string>, value: number}} Sample */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/**
 * @param {string} text
 * @returns {Sample[]}
 */
export function samples(text) {
  return text.split("\n").flatMap((line) => {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (!found) return [];
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, unescaped(value)]));
    return [{ name: found[1], labels, value: Number(found[3]) }];
  });
}

/** @param {string} text */
function unescaped(text) {
  return text.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
}

/** One look at the server, and what it is asked for. */
export class Look {
  /**
   * @param {string} text of `/metrics`
   * @param {number} seconds when it was taken
   */
  constructor(text, seconds) {
    this.seconds = seconds;
    this.samples = samples(text);
    /** @type {Map<string, number>} */
    this.plain = new Map(this.samples.filter(({ labels }) => !Object.keys(labels).length).map(({ name, value }) => [name, value]));
  }

  /**
   * A number by its name without `gesso_`; 0 where the server has none.
   * @param {string} name
   */
  get(name) {
    return this.plain.get(`gesso_${name}`) ?? 0;
  }

  /**
   * Numbers that have labels.
   * @param {string} name
   * @returns {Sample[]}
   */
  all(name) {
    return this.samples.filter((sample) => sample.name === `gesso_${name}`);
  }

  /**
   * How fast a counter has risen since an earlier look. One that fell was started anew.
   * @param {string} name
   * @param {Look | null} earlier
   * @returns {number | null} a second; null where that cannot be told
   */
  rate(name, earlier) {
    const seconds = earlier ? this.seconds - earlier.seconds : 0;
    const more = earlier ? this.get(name) - earlier.get(name) : 0;
    return seconds > 0 && more >= 0 ? more / seconds : null;
  }
}
