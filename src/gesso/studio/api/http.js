// @ts-check
import { EventParser } from "./events.js";

/** Bytes of a request that a server takes until it says otherwise. */
const MAX_BODY = 4 * 2 ** 20;

/** What went wrong with a request, in one line for the person. */
export class ApiFailure extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code?: string | null, param?: string | null}} [facts] status 0: nothing was answered
   */
  constructor(message, facts = {}) {
    super(message);
    this.status = facts.status ?? 0;
    this.code = facts.code ?? null;
    this.param = facts.param ?? null;
  }
}

/**
 * What went wrong here, before anything was asked, as if the server had said so.
 * @param {unknown} error
 * @returns {ApiFailure}
 */
export function asFailure(error) {
  return error instanceof ApiFailure ? error : new ApiFailure(/** @type {Error} */ (error).message, { status: 400 });
}

const CUT = "The connection to the server was cut. Is it still running?";
const FOREIGN = "What was answered is no JSON. Is it the server that answers, or something before it?";

/** The server's HTTP interface. The key is kept here, in memory, and goes into one header and nowhere else. */
export class Api {
  #key = "";
  /** Bytes of a request that this server takes. */
  maxBody = MAX_BODY;

  /** @param {string} key */
  useKey(key) {
    this.#key = key;
  }

  get hasKey() {
    return this.#key !== "";
  }

  /**
   * @param {string} path relative to the page
   * @returns {Promise<any>}
   */
  async get(path) {
    return read(await this.#send(path, {}));
  }

  /**
   * @param {string} path
   * @returns {Promise<string>}
   */
  async text(path) {
    return (await this.#send(path, {})).text();
  }

  /**
   * @param {string} path
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async post(path, body, signal) {
    return read(await this.#send(path, { method: "POST", body: encoded(body, this.maxBody), signal }));
  }

  /**
   * Sends a request and hands on the events of its stream, parsed, until it is done.
   * @param {string} path
   * @param {object} body
   * @param {AbortSignal} signal ends the request
   * @param {(event: string, data: any) => void} take
   */
  async stream(path, body, signal, take) {
    const response = await this.#send(path, { method: "POST", body: encoded(body, this.maxBody), signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (let done = false; reader && !done; ) {
      const part = await reader.read().catch((error) => Promise.reject(named(error)));
      for (const { event, data } of part.done ? [] : parser.push(part.value)) {
        if (data === "[DONE]") return;
        const parsed = decoded(data);
        if (parsed.error) throw new ApiFailure(parsed.error.message, { status: 500, ...parsed.error });
        take(event, parsed);
      }
      done = part.done;
    }
    throw new ApiFailure(CUT);
  }

  /**
   * @param {string} path
   * @param {RequestInit} init
   */
  async #send(path, init) {
    /** @type {Record<string, string>} */
    const headers = init.body ? { "Content-Type": "application/json" } : {};
    if (this.#key) headers["Authorization"] = `Bearer ${this.#key}`;
    const response = await fetch(path, { ...init, headers, redirect: "error" }).catch((error) => {
      throw named(error);
    });
    if (!response.ok) throw await failure(response);
    return response;
  }
}

/**
 * A body as it is sent.
 * @param {object} body
 * @param {number} [most] bytes that the server takes
 * @throws {ApiFailure} it is larger
 */
export function encoded(body, most = MAX_BODY) {
  const text = JSON.stringify(body);
  const size = new Blob([text]).size;
  if (size > most) {
    const megabytes = (size / 1e6).toFixed(1);
    throw new ApiFailure(`This request has ${megabytes} MB; the server takes ${most / 2 ** 20} MiB. Make it shorter.`);
  }
  return text;
}

/**
 * An error of `fetch` as one of ours; an abort stays what it is.
 * @param {any} error
 */
function named(error) {
  return error?.name === "AbortError" ? error : new ApiFailure(CUT);
}

/**
 * The JSON of an answer.
 * @param {Response} response
 * @returns {Promise<any>}
 * @throws {ApiFailure} it is none, or was cut
 */
async function read(response) {
  return decoded(await response.text().catch((error) => Promise.reject(named(error))));
}

/**
 * @param {string} text
 * @throws {ApiFailure} it is no JSON
 */
function decoded(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiFailure(FOREIGN);
  }
}

/** @param {Response} response */
async function failure(response) {
  const body = await response.json().catch(() => null);
  const error = body?.error ?? { message: `the server answered ${response.status}` };
  const wait = response.headers.get("Retry-After");
  const message = wait ? `${error.message}. Try again in ${wait} s.` : error.message;
  return new ApiFailure(message, { status: response.status, code: error.code, param: error.param });
}
