// @ts-check
/** What is different between two texts, word by word. */

/** @typedef {{kind: "same" | "gone" | "new", text: string}} Part */

/** Of the table of a comparison: what is larger is told as one change. */
const MOST_CELLS = 4_000_000;

/**
 * The parts of both texts in order: all but the new ones are the old text, all but those that are gone the new one.
 * @param {string} old
 * @param {string} now
 * @returns {Part[]}
 */
export function differences(old, now) {
  const before = words(old);
  const after = words(now);
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  const most = Math.min(before.length, after.length) - head;
  while (tail < most && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  /** @type {Part[]} */
  const parts = [];
  add(parts, "same", before.slice(0, head).join(""));
  between(parts, before.slice(head, before.length - tail), after.slice(head, after.length - tail));
  add(parts, "same", before.slice(before.length - tail).join(""));
  return parts;
}

/** @param {string} text */
function words(text) {
  return text.match(/\p{L}+|\p{N}+|\s|[^\p{L}\p{N}\s]/gu) ?? [];
}

/**
 * The longest words that both have in common, and what stands between them.
 * @param {Part[]} parts
 * @param {string[]} before
 * @param {string[]} after
 */
function between(parts, before, after) {
  if (before.length * after.length > MOST_CELLS) {
    add(parts, "gone", before.join(""));
    add(parts, "new", after.join(""));
    return;
  }
  const columns = after.length + 1;
  const longest = new Uint32Array((before.length + 1) * columns);
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const down = longest[(i + 1) * columns + j];
      const right = longest[i * columns + j + 1];
      longest[i * columns + j] = before[i] === after[j] ? longest[(i + 1) * columns + j + 1] + 1 : Math.max(down, right);
    }
  }
  let j = 0;
  for (let i = 0; i < before.length || j < after.length; ) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      add(parts, "same", before[i++]);
      j++;
    } else if (j >= after.length || (i < before.length && longest[(i + 1) * columns + j] >= longest[i * columns + j + 1])) {
      add(parts, "gone", before[i++]);
    } else add(parts, "new", after[j++]);
  }
}

/**
 * @param {Part[]} parts
 * @param {Part["kind"]} kind
 * @param {string} text
 */
function add(parts, kind, text) {
  const last = parts.at(-1);
  if (last?.kind === kind) last.text += text;
  else if (text) parts.push({ kind, text });
}
