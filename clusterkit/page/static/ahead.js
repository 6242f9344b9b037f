// Sends the first requests of a run's page while its scripts are still loading. This module runs twice: on its own before
// the other modules, and again as one of them.

export const KEY = "clusterkit-token";
const TOKEN = /^[\w-]+$/;
const RUN = /^\/run\/([\w.-]+)\/?$/; // matches only ids that need no escaping

export function isToken(text) {
  return TOKEN.test(text ?? "");
}

/** Return the token in the address, or null. */
export function given() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  return isToken(found) ? found : null;
}

/** Return the token that this tab has stored, or null. */
export function kept() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function request(path, token, { headers, ...options } = {}) {
  return fetch(path, { ...options, headers: { ...headers, Authorization: `Bearer ${token ?? ""}` }, credentials: "omit" });
}

function begun() {
  const [token, run] = [given() ?? kept(), location.pathname.match(RUN)?.[1]];
  const paths = token && run ? [`/api/run/${run}/stream`, "/api/config"] : [];
  return new Map(paths.map((path) => [path, request(path, token, { cache: "no-store" }).catch(() => null)]));
}

const answers = (globalThis.clusterkitAnswers ??= begun());

/** Return the answer to a request that was sent ahead. Each answer is returned only once; otherwise, undefined. */
export function answerTo(path) {
  const found = answers.get(path);
  answers.delete(path);
  return found;
}
