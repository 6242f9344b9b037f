// What the page requests while its scripts are still loading: this module runs first, and again with the others.

export const KEY = "clusterkit-token";
const TOKEN = /^[\w-]+$/;
const RUN = /^\/run\/([\w.-]+)\/?$/; // ids that are the same in an address and in a path

export function isToken(text) {
  return TOKEN.test(text ?? "");
}

/** The token in the address, or null. */
export function given() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  return isToken(found) ? found : null;
}

/** The token that this tab has kept, or null. */
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

/** The answer to a request that was made ahead: once, and then undefined. */
export function answerTo(path) {
  const found = answers.get(path);
  answers.delete(path);
  return found;
}
