// The page: strips of chunks, the segments' text and the sliders. All text is set as text.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const number = (value, digits = 2) => (value === undefined ? "" : value.toFixed(digits));
const { format: grouped } = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    name in made ? (made[name] = value) : made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Every second part of a text matches a word of the query.
const marked = (parts) => parts.map((part, n) => (n % 2 ? element("mark", {}, part) : part));

const initial = data.settings;
const state = { ...initial };
// Candidates that count: to the solver, the others are chunks that were not found.
const DROPPED = ["duplicate", "filtered", "older version", "stale"];
const isFound = (chunk) => chunk.found && !DROPPED.includes(chunk.outcome);
const chunks = []; // those that the solver sees: its columns
const columns = { starts: [], relevance: [], lengths: [], documentLengths: [], documents: [] };
Object.assign(columns, { found: [], alone: [], copies: [] });
data.documents.forEach((doc, place) => {
  let last = null;
  for (const chunk of doc.chunks) {
    chunk.document = place;
    if (!chunk.weight) continue; // the solver did not see it
    if (chunk.index - 1 !== last) columns.starts.push(chunks.length);
    last = chunk.index;
    chunk.column = chunks.length;
    chunks.push(chunk);
    columns.relevance.push(isFound(chunk) ? chunk.relevance : 0);
    columns.lengths.push(chunk.length);
    columns.documentLengths.push(doc.length);
    columns.documents.push(place);
    columns.found.push(isFound(chunk));
    columns.alone.push(doc.chunk_count === 1);
    columns.copies.push(false);
  }
});
creditColumns(columns, initial.neighbor_credit, initial.neighbor_radius).forEach((credited, n) => {
  const { outcome } = chunks[n]; // near copies have no neighbor credit
  columns.copies[n] = outcome === "duplicate" || (credited > 0 && chunks[n].credited === 0);
});
// The answer as it was returned.
const recorded = {
  segments: data.returned.map(([place, first, last, value]) => {
    const start = chunks.findIndex((one) => one.document === place && one.index === first);
    return { start, end: start + last - first, value };
  }),
  credited: chunks.map((chunk) => chunk.credited),
  values: chunks.map((chunk) => chunk.value),
};

const WHY = {
  filled: "it was not found, but is between chunks that are worth their text",
  "segment cost": "it is worth its text, but not a segment of its own",
  "no room": "it is worth its text, but better chunks fill the budget",
  "minimum value": "its segment is worth less than minimum_value",
  "beyond k": "its segment is not among the k best",
  "beyond max_per_document": "its document has that many better segments",
  "no candidate": "it was not found, and is in no segment",
  "not the best": "another segment of its document is the best",
  filtered: "the reranker or filter dropped it",
  duplicate: "a better candidate has the same text",
  "below the floor": "the best candidate of its query does not reach the score floor",
  missing: "the docstore lacks it",
};

/** Why a chunk is in the answer, or is not, in a sentence. */
function whyOf(chunk, now) {
  const penalty = number(state.irrelevant_chunk_penalty);
  const alone = number(chunk.relevance ?? 0);
  const credited = number(chunk.credited ?? 0);
  const limit = state.max_context_length;
  if (now === "returned") {
    if ((chunk.relevance ?? 0) >= state.irrelevant_chunk_penalty) return `its relevance ${alone} is worth the penalty ${penalty}`;
    if ((chunk.credited ?? 0) >= state.irrelevant_chunk_penalty) return `its neighbors lift it from ${alone} to ${credited}, above the penalty ${penalty}`;
    return `it is below the penalty ${penalty}, between chunks that are worth their text`;
  }
  if (now === "below the penalty") return `its relevance, ${credited} with its neighbors, is below the penalty ${penalty}`;
  if (now === "no room" && limit !== null && chunk.length > limit * data.rate) {
    return `it has ${grouped(chunk.length)} characters: longer than the budget`;
  }
  return WHY[now] || "";
}

function outcomeOf(chunk, answer, at, rank, kept) {
  if (rank.has(at)) {
    if (!kept.has(rank.get(at))) return "beyond k";
    return isFound(chunk) ? "returned" : "filled";
  }
  if (!chunk.found) return "no candidate";
  if (!isFound(chunk)) return chunk.outcome;
  if (answer.credited[at] < state.irrelevant_chunk_penalty) return "below the penalty";
  if (!answer.unlimited.has(at)) return "segment cost";
  return state.minimum_value > 0 && answer.values[at] < state.minimum_value ? "minimum value" : "no room";
}

function compute() {
  const limit = state.max_context_length;
  return chooseSegments(columns, { ...state, budget: limit === null ? null : limit * data.rate });
}

let before = null; // the columns of the answer with the query's own settings
function update() {
  const isInitial = Object.keys(initial).every((name) => state[name] === initial[name]);
  const answer = isInitial ? recorded : compute();
  const rank = new Map();
  answer.segments.forEach(({ start, end }, n) => {
    for (let at = start; at < end; at++) rank.set(at, n);
  });
  const segments = [...bestSegments(answer.segments, columns.relevance, state.k)];
  const kept = new Set(segments.map((segment) => answer.segments.indexOf(segment)));
  const shown = new Set();
  chunks.forEach((chunk, at) => {
    chunk.credited = answer.credited[at];
    chunk.value = answer.values[at];
    chunk.now = isInitial ? chunk.outcome : outcomeOf(chunk, answer, at, rank, kept);
    if (chunk.now === "returned" || chunk.now === "filled") shown.add(at);
  });
  before ??= shown;
  for (const doc of data.documents) {
    doc.strip.style.setProperty("--penalty", state.irrelevant_chunk_penalty);
    for (const chunk of doc.chunks) showBar(chunk, shown);
  }
  if (data.order === "document") {
    const first = new Map();
    segments.forEach(({ start }, n) => {
      const place = chunks[start].document;
      first.set(place, first.get(place) ?? n);
    });
    const rank = ({ start }) => first.get(chunks[start].document);
    segments.sort((a, b) => rank(a) - rank(b) || a.start - b.start);
  }
  showSegments(segments);
  showResult(segments, shown, isInitial);
  showSettings();
  if (selected) showChunk(selected);
}

// Segments in the form of the trace: document, first chunk, the one after the last.
const placed = (segments) => bestSegments(segments, columns.relevance, state.k).map(({ start, end }) =>
  [chunks[start].document, chunks[start].index, chunks[end - 1].index + 1].join());

function showBar(chunk, shown) {
  const now = chunk.now ?? chunk.outcome;
  const key = `${now} ${chunk.credited} ${shown.has(chunk.column)}`;
  if (chunk.shown === key) return;
  chunk.shown = key;
  const kind = now === "returned" ? " in" : now === "filled" ? " fill" : "";
  const is = shown.has(chunk.column);
  const change = is === before.has(chunk.column) ? "" : is ? " new" : " gone";
  chunk.bar.className = `bar${kind}${change}`;
  chunk.bar.style.setProperty("--credited", Math.min(chunk.credited ?? 0, 1));
  const rank = chunk.rank === undefined ? "" : `, rank ${chunk.rank + 1}`;
  const credited = chunk.credited === undefined ? "" : `, credited ${number(chunk.credited)}`;
  const relevance = chunk.found ? `, relevance ${number(chunk.relevance ?? 0)}` : "";
  chunk.bar.ariaLabel = `Chunk ${chunk.index}: ${now}${rank}${relevance}${credited}`;
}

let selected = null;
function showChunk(chunk) {
  if (selected) selected.bar.ariaSelected = "false";
  selected = chunk;
  chunk.bar.ariaSelected = "true";
  const now = chunk.now ?? chunk.outcome;
  const { reason } = data.documents[chunk.document];
  const place = chunk.start_index === undefined ? "" : `${grouped(chunk.start_index)}–${grouped(chunk.end_index)}`;
  const rows = [
    ["outcome", now], ["why", reason || whyOf(chunk, now)], ["characters", place],
    ["rank", chunk.rank === undefined ? "" : `${chunk.rank + 1}`],
    ["score", number(chunk.score, 3)],
    ["search rank", chunk.search_rank === undefined ? "" : `${chunk.search_rank + 1}`],
    ["search score", number(chunk.search_score, 3)],
    ["rank by words", chunk.lexical_rank === undefined ? "" : `${chunk.lexical_rank + 1}`],
    ["query", chunk.query ?? ""],
    ["relevance", number(chunk.relevance)], ["credited", number(chunk.credited)],
    ["value", number(chunk.value)],
  ].filter((row) => row[1]);
  const list = rows.flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, element("bdi", {}, value)),
  ]);
  const close = element("button", { type: "button", className: "close" }, "Close");
  close.addEventListener("click", hideChunk);
  byId("chunk").replaceChildren(
    close, element("h2", {}, `Chunk ${chunk.index} of `, element("bdi", {}, nameOf(chunk))),
    element("dl", {}, ...list),
    element("p", { className: "text", dir: "auto" }, ...marked(chunk.text)),
  );
}
function hideChunk() {
  byId("chunk").replaceChildren();
}
const nameOf = (chunk) => data.documents[chunk.document].name;

// Made once for each chunk, as are segments: elements that stay are not laid out again.
function partOf(chunk) {
  if (chunk.part) return chunk.part;
  const found = isFound(chunk);
  const rank = chunk.rank === undefined ? "by words" : `rank ${chunk.rank + 1}`;
  const how = found ? `${rank} · relevance ${number(chunk.relevance)}` : "filled in";
  const label = `chunk ${chunk.index} · ${how}${chunk.embedded && found ? " · as embedded" : ""}`;
  const missing = `(${grouped(chunk.length)} characters that the query did not read)`;
  return (chunk.part = element(
    "div", { className: found ? "part" : "part fill" }, element("small", {}, label),
    element("div", { className: "text", dir: "auto" }, ...(chunk.text.length ? marked(chunk.text) : [missing])),
  ));
}

function segmentOf(some, known) {
  const key = `${some[0].index} ${some.length}`;
  const made = known.get(key) ??
    element("details", { className: "segment", open: true }, element("summary"));
  known.set(key, made);
  const parts = some.map(partOf);
  if (parts.some((part) => part.parentNode !== made)) made.append(...parts);
  return made;
}

function showSegments(segments) {
  const links = [];
  const inDocument = data.documents.map(() => []);
  segments.forEach(({ start, end, value }, n) => {
    const some = chunks.slice(start, end);
    const [first, last] = [some[0].index, some[some.length - 1].index];
    const doc = data.documents[some[0].document];
    const which = first === last ? `chunk ${first}` : `chunks ${first}–${last}`;
    const link = element("a", { href: `#segment-${n + 1}` }, element("bdi", {}, doc.name), `, ${which}`);
    links.push(element("li", {}, link, ` · value\u00a0${number(value)}`));
    const made = segmentOf(some, doc.made);
    const about = ` · ${which} · ${grouped(lengthOf(some))} characters · value ${number(value)}`;
    made.id = `segment-${n + 1}`;
    made.firstChild.replaceChildren(element("strong", {}, `Segment ${n + 1}`), about);
    inDocument[some[0].document].push([first, made]);
  });
  byId("chosen").replaceChildren(...links);
  inDocument.forEach((pairs, place) => {
    const wanted = pairs.sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);
    const { texts } = data.documents[place];
    const same = texts.children.length === wanted.length && wanted.every((one, n) => one === texts.children[n]);
    if (!same) texts.replaceChildren(...wanted);
  });
}
const lengthOf = (some) => some.reduce((sum, chunk) => sum + chunk.length, 0);

function showResult(segments, shown, isInitial) {
  const some = segments.flatMap(({ start, end }) => chunks.slice(start, end));
  const [added, lost] = [shown, before].map((one, n) =>
    [...one].filter((at) => !(n ? shown : before).has(at)).length);
  const count = segments.length === 1 ? "1 segment" : `${segments.length} segments`;
  const changes = isInitial ? "" : `; against the query: ${added} chunks more, ${lost} fewer`;
  byId("result").textContent = `${count}, ${grouped(lengthOf(some))} characters${changes}`;
}

function showSettings() {
  const budget = state.max_context_length === null ? "None" : grouped(state.max_context_length).replaceAll(",", "_");
  const lines = [
    ...["irrelevant_chunk_penalty", "neighbor_credit", "segment_cost"].map((n) => `${n}=${state[n]},`),
    `max_context_length=${budget},`,
  ];
  byId("settings").textContent = [...(data.enabled ? lines : []), ...data.others].join("\n");
}

function addSliders() {
  const total = columns.lengths.reduce((sum, length) => sum + length, 0) / data.rate;
  const budgets = [0];
  for (let size = 250; size < total; size *= 2) budgets.push(size, size * 1.5);
  if (initial.max_context_length !== null) budgets.push(initial.max_context_length);
  const rooms = [...new Set(budgets)].sort((a, b) => a - b).concat([null]);
  const room = (value) => (value === null ? "no limit" : `${grouped(value)} ${data.unit}`);
  const SLIDERS = [
    ["irrelevant_chunk_penalty", "Penalty", "the relevance from which text is worth its room", 1],
    ["neighbor_credit", "Neighbor credit", "share of relevance that neighbors have", 1],
    ["segment_cost", "Segment cost", "what a segment costs, in chunks", Math.max(2, initial.segment_cost)],
    ["max_context_length", "Budget", "the most text in total", rooms.length - 1],
  ];
  const refresh = [];
  for (const [name, label, title, max] of SLIDERS) {
    const isRoom = name === "max_context_length";
    const output = element("output");
    const input = element("input", { type: "range", ariaLabel: label, min: 0, max, step: isRoom ? 1 : 0.01, name });
    const tell = () => {
      output.textContent = isRoom ? room(state.max_context_length) : String(state[name]);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => {
      state[name] = isRoom ? rooms[Number(input.value)] : Number(input.value);
      tell();
      update();
    });
    refresh.push(() => {
      input.value = isRoom ? rooms.indexOf(state.max_context_length) : state[name];
      tell();
    });
    byId("fieldset").append(element("label", { title }, element("span", {}, label), output, input));
  }
  const reset = () => {
    Object.assign(state, initial);
    refresh.forEach((one) => one());
  };
  byId("reset").addEventListener("click", () => reset() || update());
  reset();
}

function addDocuments() {
  for (const doc of data.documents) {
    doc.made = new Map();
    const strip = doc.strip = element("div", { className: "strip", role: "listbox", ariaLabel: `Chunks of ${doc.name}` });
    strip.setAttribute("aria-orientation", "horizontal");
    doc.chunks.forEach((chunk, n) => {
      const skipped = n ? chunk.index - doc.chunks[n - 1].index - 1 : 0;
      if (skipped > 0) strip.append(element("span", { className: "gap", ariaHidden: "true" }, `… ${skipped} …`));
      chunk.bar = element("div", { role: "option", tabIndex: n ? -1 : 0, ariaSelected: "false" });
      chunk.bar.style.setProperty("--relevance", Math.min(chunk.relevance ?? 0, 1));
      chunk.bar.chunk = chunk;
      strip.append(chunk.bar);
    });
    const choose = (event) => event.target.chunk && showChunk(event.target.chunk);
    for (const name of ["mouseover", "focusin", "click"]) strip.addEventListener(name, choose);
    strip.addEventListener("keydown", (event) => moveFocus(event, doc.chunks));
    doc.texts = element("div");
    const note = doc.reason ? [element("p", {}, `Not considered: ${doc.reason}`)] : [];
    const count = doc.chunk_count ? ` of ${grouped(doc.chunk_count)} chunks` : "";
    byId("documents").append(element(
      "section", { className: "document" },
      element("h3", { dir: "auto" }, doc.name), element("p", {}, `${doc.chunks.filter((one) => one.found).length} found${count}`),
      ...note, strip, doc.texts,
    ));
  }
}

function moveFocus(event, some) {
  const at = some.indexOf(event.target.chunk);
  const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: some.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const next = some[Math.max(0, Math.min(to, some.length - 1))];
  event.target.tabIndex = -1;
  next.bar.tabIndex = 0;
  next.bar.focus();
}

byId("texts").addEventListener("change", (event) =>
  document.body.classList.toggle("without-texts", !event.target.checked));
byId("copy").addEventListener("click", async () => {
  const text = byId("settings");
  try {
    await navigator.clipboard.writeText(text.textContent);
    byId("copied").textContent = "Copied.";
  } catch { // not allowed everywhere
    getSelection().selectAllChildren(text);
    byId("copied").textContent = "Selected: copy it with Ctrl+C.";
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideChunk();
});

addDocuments();
addSliders();
update();
setTimeout(() => chunks.forEach(partOf)); // after the first paint, for the sliders
const [best] = chunks.filter((chunk) => chunk.outcome === "returned").sort((a, b) => b.relevance - a.relevance);
if (best && matchMedia("(min-width: 60rem)").matches) showChunk(best);
if (data.enabled) {
  const [own, theirs] = [compute(), recorded].map((one) => placed(one.segments).sort().join(" "));
  byId("differs").hidden = own === theirs;
}
