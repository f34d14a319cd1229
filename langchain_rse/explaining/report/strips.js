// The documents, each with a strip of bars: one for each chunk that was found or considered.
const LABEL_EVERY = 5; // chunks from one number below a strip to the next

function addDocuments() {
  for (const doc of data.documents) {
    doc.texts = element("div");
    const count = doc.chunk_count ? ` of ${counted(doc.chunk_count, "chunk")}` : "";
    const found = doc.chunks.filter((chunk) => chunk.found).length;
    const note = doc.reason ? element("p", {}, `Not considered: ${doc.reason}`) : "";
    doc.section = element(
      "section", { className: "document" },
      element("h3", { dir: "auto", title: doc.path ?? "" }, doc.name), element("p", {}, `${grouped(found)}${count} found`),
      note, stripOf(doc), doc.texts,
    );
  }
}

function stripOf(doc) {
  const strip = element("div", { className: "strip", role: "listbox", ariaLabel: `Chunks of ${doc.name}` });
  strip.setAttribute("aria-orientation", "horizontal");
  let lastNumber = -Infinity;
  doc.chunks.forEach((chunk, n) => {
    const skipped = n ? chunk.index - doc.chunks[n - 1].index - 1 : 0;
    if (skipped > 0) strip.append(element("span", { className: "gap", ariaHidden: "true" }, `… ${skipped} …`));
    chunk.bar = element("div", { role: "option", tabIndex: n ? -1 : 0, ariaSelected: "false" });
    chunk.bar.style.setProperty("--relevance", Math.min(chunk.relevance ?? 0, 1));
    chunk.bar.style.setProperty("--credited", Math.min(chunk.credited ?? 0, 1));
    const isNumbered = chunk.index % LABEL_EVERY === 0 && chunk.index - lastNumber > 1;
    if (!n || skipped > 0 || isNumbered) chunk.bar.dataset.index = lastNumber = chunk.index;
    chunk.bar.chunk = chunk;
    strip.append(chunk.bar);
  });
  // They stay together, so that no bar stands alone in a row.
  const tail = [...strip.children].slice(-3);
  strip.append(element("span", { className: "tail", role: "presentation" }, ...tail));
  const choose = (event) => event.target.chunk && showChunk(event.target.chunk);
  for (const name of ["mouseover", "focusin", "click"]) strip.addEventListener(name, choose);
  strip.addEventListener("keydown", (event) => moveFocus(event, doc.chunks));
  return strip;
}

function showBar(chunk) {
  const passage = numbers.get(chunk.column);
  const place = passage ? ` in passage ${passage.number}` : "";
  const kind = { returned: " in", filled: " fill" }[chunk.now] ?? "";
  chunk.bar.className = `bar${kind}`;
  if (passage && passage.isFirst) chunk.bar.dataset.passage = passage.number;
  else delete chunk.bar.dataset.passage;
  const rank = chunk.rank === undefined ? "" : `, ${chunk.rank}`;
  const credited = chunk.credited === undefined ? "" : `, ${number(chunk.credited)} with neighbors`;
  const relevance = chunk.found ? `, ${relevanceOf(chunk)}` : credited;
  chunk.bar.ariaLabel = `Chunk ${chunk.index}: ${chunk.now}${place}${rank}${relevance}`;
}

function moveFocus(event, some) {
  const at = some.indexOf(event.target.chunk);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: some.length - 1 }[event.key];
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
  byId("documents").replaceChildren(...[...shown].map((doc) => doc.section));
  byId("folded").replaceChildren(...folded.map((doc) => doc.section));
  byId("others").hidden = !folded.length;
  byId("others").firstElementChild.textContent = `${counted(folded.length, "document")} without a returned passage`;
}
