// Reads event streams with `fetch`, because EventSource can't send the token in a header.

/**
 * Follow a stream. Returns a function that stops following.
 *
 * `on` has these callbacks: `opened()`, then `heard(data, id)` for each message. At the end, `over()` if the stream is
 * complete, or `lost(answer)` otherwise; `answer` is an error response, or undefined if the connection was lost.
 */
export function follow(access, path, on) {
  const control = new AbortController();
  read(access, path, control.signal, on);
  return () => control.abort();
}

async function read(access, path, signal, on) {
  const answer = await access.fetch(path, { signal, cache: "no-store" }).catch(() => null);
  if (signal.aborted) return undefined;
  if (!answer?.ok) return on.lost(answer ?? undefined);
  on.opened?.();
  for await (const { event, id, data } of messages(answer.body)) {
    if (signal.aborted) return undefined;
    if (event === "over") return on.over();
    try {
      if (data) on.heard(JSON.parse(data), id);
    } catch (error) {
      reportError(error); // a bug of the page; the stream itself works
    }
  }
  if (signal.aborted) return undefined;
  access.lost();
  return on.lost();
}

/** Yield the messages of a stream, each as an object with its fields, until the connection ends. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) yield fieldsOf(part);
  }
}

function fieldsOf(message) {
  const lines = message.split("\n").map((line) => line.match(/^(\w+): (.*)$/)?.slice(1));
  return Object.fromEntries(lines.filter(Boolean));
}
