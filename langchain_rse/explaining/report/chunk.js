// The details of a chunk: its outcome, the reason, and its numbers.
let selected = null;

function showChunk(chunk) {
  if (selected) selected.bar.ariaSelected = "false";
  selected = chunk;
  chunk.bar.ariaSelected = "true";
  const close = element("button", { type: "button", className: "close" }, "Close");
  close.addEventListener("click", hideChunk);
  const isRecorded = chunk.now === chunk.outcome || chunk.now === chunk.excluded;
  const segment = numbers.get(chunk.column);
  byId("chunk").replaceChildren(
    close, element("h2", {}, `Chunk ${chunk.index} of `, element("bdi", {}, nameOf(chunk))),
    listOf([
      ["outcome", chunk.now],
      ["why", data.documents[chunk.document].reason || (isRecorded && !segment && chunk.why)],
      ["passage", segment && `${segment.number}`],
    ]),
    listOf(numbersOf(chunk)),
    listOf(madeOf(chunk)),
    textOf(chunk),
  );
}

function numbersOf(chunk) {
  const start = chunk.start_index ?? 0;
  const hits = (chunk.hits ?? []).flatMap(([name, rank, score]) => [
    [`${name}: rank`, `${rank}`],
    [`${name}: score`, score !== null && number(score, 3)],
  ]);
  return [["characters", chunk.length && range(start, start + chunk.length)], ...hits, ["query", chunk.query]];
}

/** The parts of the relevance, from the search to the value. */
function madeOf(chunk) {
  const fromNeighbors = (chunk.credited ?? 0) - (chunk.relevance ?? 0);
  return [
    ...(chunk.parts ?? []),
    ["query words", chunk.words],
    ["relevance", number(chunk.relevance)],
    ["neighbors add", fromNeighbors >= 0.005 && number(fromNeighbors)],
    ["with neighbors", number(chunk.credited)],
    ["value", isInitial() && number(chunk.value)],
  ];
}

/** A list of names and values, without empty values. */
function listOf(rows) {
  const list = element("dl");
  for (const [name, value] of rows) {
    if (value) list.append(element("dt", {}, name), element("dd", {}, element("bdi", {}, value)));
  }
  return list;
}

function hideChunk() {
  byId("chunk").replaceChildren();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideChunk();
});
