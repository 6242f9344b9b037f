// Reads event streams with `fetch`, because EventSource can't send the token in a header.

/** Yield the messages of a stream, each as an object with its fields, until the connection ends. */
export async function* messages(body) {
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
