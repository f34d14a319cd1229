// The page: shows the answer for the positions of the sliders, and starts.
const columnsOf = (passages) => new Set(passages.flatMap(({ start, end }) => {
  return Array.from({ length: end - start }, (_, n) => start + n);
}));
const before = columnsOf(recorded);
let numbers = new Map(); // the number of the passage of each column in the answer

/** The outcome of a chunk; for the original settings, the outcome in the trace. */
function outcomeOf(chunk) {
  if (isInitial()) return chunk.outcome;
  if (numbers.has(chunk.column)) return isFound(chunk) ? "returned" : "filled";
  return chunk.excluded ?? (chunk.found ? "not returned" : "no candidate");
}

function update() {
  const passages = answerNow();
  numbers = new Map();
  passages.forEach(({ start, end }, n) => {
    for (let at = start; at < end; at++) numbers.set(at, { number: n + 1, isFirst: at === start });
  });
  const shown = columnsOf(passages);
  for (const doc of data.documents) for (const chunk of doc.chunks) chunk.now = outcomeOf(chunk);
  showBars(shown);
  byId("filled-key").hidden = !chunks.some((chunk) => chunk.now === "filled");
  showPassages(passages, isInitial() ? passagesOf(data.unreturned) : []);
  foldDocuments(passages);
  showResult(passages, shown);
  showSettings();
  if (selected) showChunk(selected);
}

function showResult(passages, shown) {
  const some = passages.flatMap(({ start, end }) => chunks.slice(start, end));
  const added = [...shown].filter((at) => !before.has(at)).length;
  const lost = [...before].filter((at) => !shown.has(at)).length;
  let changes = "";
  if (!isInitial()) {
    changes = "; same as the original answer";
  }
  if (added || lost) {
    changes = `; compared with the original answer: ${counted(added, "chunk")} added (blue line), ${lost} removed (red line)`;
  }
  byId("result").textContent = `${counted(passages.length, "passage")}, ${counted(lengthOf(some), "character")}${changes}`;
}

addDocuments();
update();
byId("others").open = !recorded.length && data.documents.some((doc) => !doc.reason);
const returned = chunks.filter((chunk) => chunk.outcome === "returned");
if (returned.length && matchMedia("(min-width: 60rem)").matches) showChunk(bestOf(returned));
