// Sends the first requests of a run's page while its scripts are still loading. This module runs twice: on its own before
// the other modules, and again as one of them.

export const KEY = "clusterkit-token";
const TOKEN = /^[\w-]+$/;
const RUN = /^\/run\/([\w.-]+)\/?$/; // matches only ids that need no escaping
const DIGITS = 48; // the length of a token

/** Return the token in the address, or null. */
export function given() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  return TOKEN.test(found ?? "") ? found : null;
}

/** Return the token that this tab has stored, or null. */
export function kept() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

async function sealed(token, text) {
  const bytes = new TextEncoder();
  const key = await crypto.subtle.importKey("raw", bytes.encode(token), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await crypto.subtle.sign("HMAC", key, bytes.encode(text)));
}

/** Return the name of the shared worker of the tabs that have a token, which nobody else can guess. */
export async function named(token) {
  return sealed(token, "clusterkit tabs");
}

function hex(bytes) {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Have the server prove that it knows one of the tokens, of which none is sent. When a server has ended, any user of the
 * machine can listen on its port. Returns {token, reading, control}: `reading` goes with requests that read, and `control`
 * with those that act, if the token allows that. Returns null if the server knows no token. Throws if no server answers.
 */
export async function proven(tokens) {
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
  const answer = await fetch(`/api/proof?nonce=${nonce}`, { cache: "no-store", credentials: "omit" });
  const proof = parsed(await answer.text());
  for (const token of tokens) {
    const mine = await sealed(token, `clusterkit dashboard ${location.port} ${nonce}`);
    if (mine === proof?.control) return { token, reading: (await sealed(token, "clusterkit reading")).slice(0, DIGITS), control: token };
    if (mine === proof?.reading) return { token, reading: token, control: null };
  }
  return null;
}

/** Parse an answer, which may be that of any server. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function request(path, token, { headers, ...options } = {}) {
  return fetch(path, { ...options, headers: { ...headers, Authorization: `Bearer ${token}` }, credentials: "omit" });
}

function begun() {
  const tokens = globalThis.document ? [given(), kept()].filter(Boolean) : []; // a worker has no address and no storage
  const proof = tokens.length ? proven(tokens) : Promise.resolve(null);
  const run = globalThis.document && location.pathname.match(RUN)?.[1];
  const ask = (path) => proof.then((keys) => keys && request(path, keys.reading, { cache: "no-store" })).catch(() => null);
  const paths = run && tokens.length ? [`/api/run/${run}/entities`, "/api/config"] : [];
  return { tokens, proof, answers: new Map(paths.map((path) => [path, ask(path)])) };
}

export const ahead = (globalThis.clusterkitAhead ??= begun());

/** Return the answer to a request that was sent ahead. Each answer is returned only once; otherwise, undefined. */
export function answerTo(path) {
  const found = ahead.answers.get(path);
  ahead.answers.delete(path);
  return found;
}
