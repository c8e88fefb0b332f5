// @ts-check
/** What is written in the cells of a canvas: the tokens' text, cut nowhere inside a character. */

const SEGMENTER = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ud800-\udfff]/gu;

/**
 * The text of every cell. Where a character is made of several tokens, such as a flag or a family, all of it stands in
 * the cell of the first; the others are empty.
 * @param {(string | null)[]} pieces null for a special token
 * @returns {(string | null)[]}
 */
export function cellTexts(pieces) {
  const shown = pieces.map((piece) => (piece === null ? null : visible(piece)));
  const joined = shown.map((text) => text ?? "\u0000").join("");
  if (/^[\u0000-\u024f\u21b5]*$/.test(joined)) return shown;
  const borders = new Set();
  for (const { index } of SEGMENTER.segment(joined)) borders.add(index);
  let place = 0;
  let first = 0;
  shown.forEach((text, number) => {
    const length = text === null ? 1 : text.length;
    if (number > 0 && !borders.has(place) && text && shown[first] !== null) {
      // Up to the next border it belongs to the character that an earlier cell began.
      let end = place;
      while (end < place + length && !borders.has(end)) end++;
      shown[first] += text.slice(0, end - place);
      shown[number] = text.slice(end - place);
    }
    if (shown[number] !== "") first = number;
    place += length;
  });
  return shown;
}

/**
 * Without control characters; ends of lines are marked.
 * @param {string} piece
 */
function visible(piece) {
  return piece.replace(HIDDEN, "\ufffd").replaceAll("\n", "\u21b5\n");
}
