// The documents, each with a strip of bars: one for each chunk that was found or considered.
const LABEL_EVERY = 5; // chunks from one number below a strip to the next
const LEAST_IN_ROW = 11; // bars in a row of the narrowest screen

function addDocuments() {
  for (const doc of data.documents) {
    doc.made = new Map(); // its passages, by the best chunk
    doc.texts = element("div");
    const count = doc.chunk_count ? ` of ${counted(doc.chunk_count, "chunk")}` : "";
    const found = doc.chunks.filter((chunk) => chunk.found).length;
    const note = doc.reason ? [element("p", {}, `Not considered: ${doc.reason}`)] : [];
    doc.section = element(
      "section", { className: "document" },
      element("h3", { dir: "auto", title: doc.path ?? "" }, doc.name), element("p", {}, `${grouped(found)}${count} found`),
      ...note, chartOf(doc), doc.texts,
    );
  }
}

function chartOf(doc) {
  const strip = doc.strip = element("div", { className: "strip", role: "listbox", ariaLabel: `Chunks of ${doc.name}` });
  strip.setAttribute("aria-orientation", "horizontal");
  let gaps = 0;
  let lastNumber = -Infinity;
  doc.chunks.forEach((chunk, n) => {
    const skipped = n ? chunk.index - doc.chunks[n - 1].index - 1 : 0;
    if (skipped > 0) {
      gaps += 1;
      strip.append(element("span", { className: "gap", ariaHidden: "true" }, `… ${skipped} …`));
    }
    chunk.bar = element("div", { role: "option", tabIndex: n ? -1 : 0, ariaSelected: "false" });
    chunk.bar.style.setProperty("--relevance", Math.min(chunk.relevance ?? 0, 1));
    const isNumbered = chunk.index % LABEL_EVERY === 0 && chunk.index - lastNumber > 1;
    if (!n || skipped > 0 || isNumbered) {
      chunk.bar.dataset.index = chunk.index;
      lastNumber = chunk.index;
    }
    chunk.bar.chunk = chunk;
    strip.append(chunk.bar);
  });
  const choose = (event) => event.target.chunk && showChunk(event.target.chunk);
  for (const name of ["mouseover", "focusin", "click"]) strip.addEventListener(name, choose);
  strip.addEventListener("keydown", (event) => moveFocus(event, doc.chunks));
  // As many rows as the strip can need; the others are hidden.
  const most = Math.ceil((doc.chunks.length + 3 * gaps) / LEAST_IN_ROW);
  const axis = element("div", { className: "axis", ariaHidden: "true" });
  for (let row = 0; row < most; row++) {
    const line = element("b");
    doc.lines = [...(doc.lines ?? []), line];
    axis.append(element("div", {}, element("i", {}, "1"), line, element("i", {}, "0"), element("span", {}, "chunk")));
  }
  return element("div", { className: "chart" }, axis, strip);
}

/** Update the bars; `shown` has the columns of the answer. */
function showBars(shown) {
  for (const doc of data.documents) {
    doc.strip.parentNode.style.setProperty("--penalty", state.penalty);
    for (const line of doc.lines) line.textContent = number(state.penalty);
    for (const chunk of doc.chunks) showBar(chunk, shown, numbers.get(chunk.column));
  }
}

function showBar(chunk, shown, passage) {
  const { now } = chunk;
  const is = shown.has(chunk.column);
  const first = passage && passage.isFirst ? passage.number : "";
  const place = passage ? ` in passage ${passage.number}` : "";
  const key = `${now}${place} ${first} ${is}`;
  if (chunk.shown === key) return;
  chunk.shown = key;
  const kind = now === "returned" ? " in" : now === "filled" ? " fill" : "";
  const change = is === before.has(chunk.column) ? "" : is ? " new" : " gone";
  chunk.bar.className = `bar${kind}${change}`;
  chunk.bar.style.setProperty("--credited", Math.min(chunk.credited ?? 0, 1));
  if (first) chunk.bar.dataset.passage = first;
  else delete chunk.bar.dataset.passage;
  const rank = chunk.rank === undefined ? "" : `, ${chunk.rank}`;
  const credited = chunk.credited === undefined ? "" : `, with neighbors ${number(chunk.credited)}`;
  const relevance = chunk.found ? `, relevance ${number(chunk.relevance)}` : "";
  chunk.bar.ariaLabel = `Chunk ${chunk.index}: ${now}${place}${rank}${relevance}${credited}`;
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

/** Documents with a passage are in the order of the answer, the others in a folded list. */
function foldDocuments(passages) {
  const shown = new Set(passages.map(({ start }) => data.documents[chunks[start].document]));
  const folded = data.documents.filter((doc) => !shown.has(doc));
  replaceIfOther(byId("documents"), [...shown].map((doc) => doc.section));
  replaceIfOther(byId("folded"), folded.map((doc) => doc.section));
  byId("others").hidden = !folded.length;
  if (!folded.length) return;
  const candidates = folded.flatMap((doc) => doc.chunks.filter((chunk) => chunk.found));
  const best = candidates.reduce((a, b) => ((b.relevance ?? 0) > (a.relevance ?? 0) ? b : a));
  const unconsidered = folded.filter((doc) => doc.reason).length;
  const among = unconsidered ? ` (${grouped(unconsidered)} not considered)` : "";
  byId("others").firstElementChild.replaceChildren(
    element("strong", {}, `${counted(folded.length, "document")} without a returned passage`),
    `${among} · ${counted(candidates.length, "candidate")} · best: `, element("bdi", {}, nameOf(best)),
    `, chunk ${best.index}, relevance ${number(best.relevance)}, ${best.now}`,
  );
}

// Keeps equal elements, which the browser then does not lay out again.
function replaceIfOther(parent, wanted) {
  const { children } = parent;
  const isSame = children.length === wanted.length && wanted.every((one, n) => one === children[n]);
  if (!isSame) parent.replaceChildren(...wanted);
}
