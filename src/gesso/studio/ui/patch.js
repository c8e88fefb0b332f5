// @ts-check
/** Changes of a part that grows, such as an answer that is being written: what is the same in it stays where it is. */

/**
 * Makes the children of an element those of another one. Nodes that are the same stay, so that meanwhile a button can be
 * pressed, a text selected, a block of code scrolled. Buttons are kept with what they do, so the two elements must show
 * the same thing at different times.
 * @param {Element} shown
 * @param {Element} fresh gives its children away
 */
export function patch(shown, fresh) {
  const [before, after] = [[...shown.childNodes], [...fresh.childNodes]];
  const shorter = Math.min(before.length, after.length);
  let begin = 0;
  while (begin < shorter && before[begin].isEqualNode(after[begin])) begin++;
  let end = 0;
  while (end < shorter - begin && before[before.length - 1 - end].isEqualNode(after[after.length - 1 - end])) end++;
  const behind = before[before.length - end] ?? null;
  const gone = before.slice(begin, before.length - end);
  for (const node of after.slice(begin, after.length - end)) {
    const old = gone.shift();
    if (!old) shown.insertBefore(node, behind);
    else if (!grown(old, node)) old.replaceWith(node);
  }
  for (const node of gone) node.remove();
}

/**
 * Lets a node become another one, where it is of the same kind.
 * @param {Node} old
 * @param {Node} fresh
 */
function grown(old, fresh) {
  if (old instanceof Text && fresh instanceof Text && fresh.data.startsWith(old.data)) {
    old.appendData(fresh.data.slice(old.length)); // what is selected in it stays so
    return true;
  }
  if (!(old instanceof Element) || !(fresh instanceof Element) || old instanceof HTMLButtonElement) return false;
  if (!old.cloneNode().isEqualNode(fresh.cloneNode())) return false;
  patch(old, fresh);
  return true;
}
