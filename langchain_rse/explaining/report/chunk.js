// The details of a chunk: its outcome, the reason, and its numbers.
let selected = null;

function showChunk(chunk) {
  if (selected) selected.bar.ariaSelected = "false";
  selected = chunk;
  chunk.bar.ariaSelected = "true";
  const close = element("button", { type: "button", className: "close" }, "Close");
  close.addEventListener("click", hideChunk);
  const isRecorded = chunk.now === chunk.outcome || chunk.now === chunk.excluded;
  const passage = numbers.get(chunk.column);
  const hits = (chunk.hits ?? []).map(([name, rank, score]) => [
    name, score === null ? `rank ${rank}` : `rank ${rank}, ${nounOf(name, chunk.query)}\u00a0${number(score, 3)}`,
  ]);
  // The difference of the rounded numbers, so that they add up.
  const fromNeighbors = number(chunk.credited) - number(chunk.relevance);
  byId("chunk").replaceChildren(
    close, element("h2", {}, `Chunk ${chunk.index} of `, element("bdi", { title: pathOf(chunk) }, nameOf(chunk))),
    listOf([
      ["outcome", chunk.now],
      ["why", data.documents[chunk.document].reason || (isRecorded && !passage && chunk.why)],
      ["passage", passage && `${passage.number}`],
      ["characters", chunk.length && range(chunk.start_index ?? 0, (chunk.start_index ?? 0) + chunk.length)],
      ...hits, ["query", chunk.query], ["query words", chunk.words],
    ]),
    element("h3", {}, "Relevance"),
    listOf([
      ...(chunk.parts ?? []).map(([name, added]) => [`from ${name}`, added]),
      ["alone", number(chunk.relevance)],
      ["neighbors add", fromNeighbors > 0.001 && number(fromNeighbors)],
      ["with neighbors", number(chunk.credited)],
      ["value", isInitial() && number(chunk.value)],
    ]),
    textOf(chunk),
  );
}

/** "distance" if the scores of a search rise with the rank, else "score". */
function nounOf(search, query) {
  const same = data.documents.flatMap((doc) => doc.chunks).filter((chunk) => chunk.query === query);
  const hits = same.flatMap((chunk) => (chunk.hits ?? []).filter(([name]) => name === search));
  hits.sort(([, a], [, b]) => a - b);
  return hits.length && hits[0][2] < hits[hits.length - 1][2] ? "distance" : "score";
}

/** A list of names and values, without empty values. */
function listOf(rows) {
  const list = element("dl");
  for (const [name, value] of rows) {
    if (value) list.append(element("dt", {}, name), element("dd", {}, element("bdi", {}, value)));
  }
  return list;
}

const hideChunk = () => byId("chunk").replaceChildren();
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideChunk();
});
