// The details of one chunk: why it is in the answer or not, and its numbers.
let selected = null;

function showChunk(chunk) {
  if (selected) selected.bar.ariaSelected = "false";
  selected = chunk;
  chunk.bar.ariaSelected = "true";
  const now = chunk.now ?? chunk.outcome;
  const { reason } = data.documents[chunk.document];
  const close = element("button", { type: "button", className: "close" }, "Close");
  close.addEventListener("click", hideChunk);
  byId("chunk").replaceChildren(
    close, element("h2", {}, `Chunk ${chunk.index} of `, element("bdi", {}, nameOf(chunk))),
    listOf([
      ["outcome", now],
      ["why", reason || whyOf(chunk, now)],
      ["segment", numbers.has(chunk.column) ? `${numbers.get(chunk.column).number}` : ""],
    ]),
    listOf(numbersOf(chunk)),
    listOf(madeOf(chunk)),
    textOf(chunk),
  );
}

function numbersOf(chunk) {
  const end = chunk.start_index + chunk.length;
  const place = chunk.start_index === undefined ? "" : `${grouped(chunk.start_index)}–${grouped(end)}`;
  const hits = (chunk.hits ?? []).flatMap(([name, rank, score]) => [
    [`${name}: rank`, `${rank + 1}`],
    [`${name}: score`, number(score ?? undefined, 3)],
  ]);
  return [["characters", place], ...hits, ["query", chunk.query ?? ""]];
}

/** What the relevance is made of, from the search to the value. */
function madeOf(chunk) {
  const fromNeighbors = (chunk.credited ?? 0) - (chunk.relevance ?? 0);
  return [
    ...chunk.parts,
    ["words of the query", chunk.words ?? ""],
    ["relevance", number(chunk.relevance)],
    ["from neighbors", fromNeighbors >= 0.005 ? number(fromNeighbors) : ""],
    ["credited", number(chunk.credited)],
    ["value", number(chunk.value)],
  ];
}

/** A list of names and values, without those that are empty. */
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
