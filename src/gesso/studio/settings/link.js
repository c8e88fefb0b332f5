// @ts-check
/** The link that holds a prompt and its settings. They stand behind the `#`, which browsers send to no server. */

/** @typedef {{prompt: string, system: string, tools: string, model: string, settings: Record<string, string>}} Shared */

const PREFIX = "set.";

/**
 * @param {string} page address without what is behind `#`
 * @param {Shared} shared
 */
export function linkTo(page, { prompt, system, tools, model, settings }) {
  const query = new URLSearchParams();
  for (const [name, text] of Object.entries({ prompt, system, tools, model })) if (text) query.set(name, text);
  for (const [path, text] of Object.entries(settings)) query.set(PREFIX + path, text);
  return `${page}#${query}`;
}

/**
 * What a link holds; empty texts where it says nothing.
 * @param {string} hash with or without its `#`
 * @returns {Shared}
 */
export function sharedIn(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const settings = [...query].filter(([name]) => name.startsWith(PREFIX)).map(([name, text]) => [name.slice(PREFIX.length), text]);
  return {
    prompt: query.get("prompt") ?? "",
    system: query.get("system") ?? "",
    tools: query.get("tools") ?? "",
    model: query.get("model") ?? "",
    settings: Object.fromEntries(settings),
  };
}
