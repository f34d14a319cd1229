// The page: shows the answer for the settings that are tried, and starts.
let before = null; // the columns of the answer with the query's own settings
let numbers = new Map(); // of the columns in the answer: the number of their segment

function planOf(settings) {
  const limit = settings.max_context_length;
  return planSegments(columns, { ...settings, budget: limit === null ? null : limit * data.rate });
}

function answerOf(plan, taken) {
  const kept = bestSegments(taken.segments, columns.relevance, state.k);
  const unreturned = taken.segments.filter((segment) => !kept.includes(segment));
  const outcomes = outcomesOf(plan, taken, kept, unreturned);
  const { credited, values } = plan;
  return { segments: inOrder(kept), unreturned, outcomes, credited, values };
}

/** Segments in the order in which the retriever returns them, of segments best first. */
function inOrder(segments) {
  if (data.order !== "document") return segments;
  const best = new Map(); // the rank of each document's best segment
  segments.forEach(({ start }, n) => {
    const { document } = chunks[start];
    if (!best.has(document)) best.set(document, n);
  });
  const rankOf = ({ start }) => best.get(chunks[start].document);
  return [...segments].sort((a, b) => rankOf(a) - rankOf(b) || a.start - b.start);
}

function update() {
  const isInitial = Object.keys(initial).every((name) => state[name] === initial[name]);
  if (isInitial) show(recorded, false);
  else {
    const plan = planOf(state);
    show(answerOf(plan, takeSteps(plan)), true);
  }
  byId("play").disabled = !numbers.size;
}

/** Show an answer, compared with that of the query's own settings, or not.
 *
 *  Documents without one of the segments in `unfolded` are folded.
 */
function show(answer, isCompared, unfolded = answer.segments) {
  chunks.forEach((chunk, at) => {
    chunk.credited = answer.credited[at];
    chunk.value = answer.values[at];
    chunk.now = answer.outcomes[at];
  });
  numbers = new Map();
  answer.segments.forEach(({ start, end }, n) => {
    for (let at = start; at < end; at++) numbers.set(at, { number: n + 1, isFirst: at === start });
  });
  const shown = new Set(numbers.keys());
  before ??= shown;
  showBars(shown, numbers);
  showSegments(answer.segments, answer.unreturned);
  foldDocuments(unfolded);
  showResult(answer.segments, shown, isCompared);
  showSettings();
  if (selected) showChunk(selected);
}

function showResult(segments, shown, isCompared) {
  const some = segments.flatMap(({ start, end }) => chunks.slice(start, end));
  const added = [...shown].filter((at) => !before.has(at)).length;
  const lost = [...before].filter((at) => !shown.has(at)).length;
  let changes = "";
  if (isCompared) {
    changes = `; against the query: ${counted(added, "chunk")} more (a blue line above), ${lost} fewer (a red line)`;
  }
  byId("result").textContent = `${counted(segments.length, "segment")}, ${counted(lengthOf(some), "character")}${changes}`;
}

addDocuments();
addSliders();
update();
byId("play").parentNode.hidden = byId("reset").parentNode.hidden = !data.enabled;
byId("others").open = !recorded.segments.length && data.documents.some((doc) => !doc.reason);
setTimeout(() => chunks.forEach(partOf)); // after the first paint, for the sliders
const returned = chunks.filter((chunk) => chunk.outcome === "returned");
if (returned.length && matchMedia("(min-width: 60rem)").matches) showChunk(bestOf(returned));
if (data.enabled) {
  const placesOf = (segments) => segments.map(({ start, end }) => `${start} ${end}`).sort().join();
  const { segments } = answerOf(planOf(initial), takeSteps(planOf(initial)));
  byId("differs").hidden = placesOf(segments) === placesOf(recorded.segments);
}
