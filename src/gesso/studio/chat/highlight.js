// @ts-check
import { h } from "../ui/dom.js";

const WORDS = {
  python: "and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield None True False match case self",
  js: "async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield",
  c: "auto bool break case char class const continue default delete do double else enum extern false float fn for if impl import int let long match mut namespace new null nullptr package private protected pub public return self short signed sizeof static struct super switch template this throw trait true try type typedef union unsigned use using virtual void while",
  sql: "add all alter and as asc between by case create delete desc distinct drop else end exists from full group having in index inner insert into is join key left like limit not null on or order outer primary right select set table then union unique update values when where with",
  shell: "case cd do done echo elif else esac exit export fi for function if in local return set shift then unset until while",
};
/** @type {Record<string, keyof typeof WORDS>} */
const LANGUAGES = {
  py: "python", python: "python", js: "js", javascript: "js", ts: "js", typescript: "js", json: "js", c: "c", cpp: "c", "c++": "c",
  java: "c", go: "c", rust: "c", rs: "c", cs: "c", sql: "sql", sh: "shell", bash: "shell", shell: "shell", zsh: "shell",
};
const COMMENTS = { python: "#[^\\n]*", shell: "#[^\\n]*", sql: "--[^\\n]*", js: "//[^\\n]*|/\\*[\\s\\S]*?\\*/", c: "//[^\\n]*|/\\*[\\s\\S]*?\\*/" };
/** Characters that are coloured; longer code is shown plain. */
const LONGEST = 50_000;

/**
 * Code as nodes, words of its language coloured.
 * @param {string} code
 * @param {string} language as the fence names it
 * @returns {(Node | string)[]}
 */
export function highlighted(code, language) {
  const name = language.toLowerCase();
  const kind = Object.hasOwn(LANGUAGES, name) ? LANGUAGES[name] : undefined;
  if (!kind || code.length > LONGEST) return [code];
  const strings = kind === "python" ? "\"\"\"[\\s\\S]*?\"\"\"|'''[\\s\\S]*?'''|" : "";
  const pattern = new RegExp(
    `(?<comment>${COMMENTS[kind]})|(?<string>${strings}"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*')|(?<number>\\b\\d[\\w.]*)|(?<word>[A-Za-z_]\\w*)`,
    "g",
  );
  const words = new Set(WORDS[kind].split(" "));
  /** @type {(Node | string)[]} */
  const parts = [];
  let place = 0;
  for (const found of code.matchAll(pattern)) {
    const groups = /** @type {Record<string, string | undefined>} */ (found.groups);
    const text = found[0];
    const isWord = groups.word !== undefined;
    if (isWord && !words.has(kind === "sql" ? text.toLowerCase() : text)) continue;
    const style = isWord ? "keyword" : groups.comment ? "comment" : groups.string ? "string" : "number";
    if (found.index > place) parts.push(code.slice(place, found.index));
    parts.push(h("span", { class: `code-${style}` }, text));
    place = found.index + text.length;
  }
  parts.push(code.slice(place));
  return parts;
}
