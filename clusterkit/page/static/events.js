// Event streams, read with `fetch`: EventSource can't send the token in a header.

/**
 * Follow a stream. Returns what ends that.
 * `opened()`; `heard(data, id)` for each message; then `over()`, if the server has no more to say, or `lost(answer)`:
 * the answer that was no stream, or undefined where the connection was lost.
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
      reportError(error); // the page's mistake; the stream is all right
    }
  }
  return signal.aborted ? undefined : on.lost();
}

/** The messages of a stream until it is cut off, each as its fields. */
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
