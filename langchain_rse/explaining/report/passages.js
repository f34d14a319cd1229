// The text of the passages, below the strip of their document.
const OPEN = 3; // strongest passages that begin unfolded
const PREVIEW = 120; // characters of a folded passage

// Made once for each chunk.
function partOf(chunk) {
  if (chunk.part) return chunk.part;
  const found = isFound(chunk);
  const how = found ? `${chunk.rank} · relevance ${number(chunk.relevance)}` : "filled in";
  const label = `chunk ${chunk.index} · ${how}${chunk.embedded && found ? " · embedded text" : ""}`;
  chunk.part = element(
    "div", { className: found ? "part" : "part fill" },
    element("small", {}, label), textOf(chunk),
  );
  return chunk.part;
}

function textOf(chunk) {
  const missing = `(text not read: ${counted(chunk.length ?? 0, "character")})`;
  return element("div", { className: "text", dir: "auto" }, ...marked(chunk.text ?? [missing]));
}

const relevanceOf = (chunk) => (isFound(chunk) ? chunk.relevance ?? 0 : 0);
const bestOf = (some) => some.reduce((a, b) => (relevanceOf(b) > relevanceOf(a) ? b : a));
function whichOf(some) {
  const [first, last] = [some[0].index, some[some.length - 1].index];
  return `${first === last ? "chunk" : "chunks"} ${range(first, last)}`;
}

// Made once for each best chunk, so that a growing passage stays folded or unfolded.
function passageOf(some, isOpen) {
  const { made } = data.documents[some[0].document];
  const best = bestOf(some);
  if (!made.has(best)) {
    made.set(best, element("details", { className: "passage", open: isOpen }, element("summary")));
  }
  const passage = made.get(best);
  replaceIfOther(passage, [passage.firstElementChild, ...some.map(partOf)]);
  return passage;
}

function describe(passage, title, some, value) {
  const preview = (bestOf(some).text ?? []).join("").trim().slice(0, PREVIEW).replace(/\S*$/, "…");
  passage.firstElementChild.replaceChildren(
    element("strong", {}, title),
    ` · ${whichOf(some)} · ${counted(lengthOf(some), "character")} · value ${number(value)}`,
    element("bdi", { className: "preview" }, preview),
  );
}

/** Show the passages in the order of the answer, then the passages that were not returned. */
function showPassages(passages, unreturned) {
  const strongest = [...passages].sort((a, b) => b.value - a.value).slice(0, OPEN);
  const links = [];
  const inDocument = data.documents.map(() => []);
  passages.forEach((passage, n) => {
    const some = chunks.slice(passage.start, passage.end);
    const name = element("bdi", { title: pathOf(some[0]) }, nameOf(some[0]));
    const link = element("a", { href: `#passage-${n + 1}` }, name, `, ${whichOf(some)}`);
    links.push(element("li", {}, link, ` · value\u00a0${number(passage.value)}`));
    const made = passageOf(some, strongest.includes(passage));
    made.id = `passage-${n + 1}`;
    describe(made, `Passage ${n + 1}`, some, passage.value);
    inDocument[some[0].document].push([passage.start, made]);
  });
  byId("chosen").replaceChildren(...links);
  for (const { start, end, value } of unreturned) {
    const some = chunks.slice(start, end);
    const made = passageOf(some, false);
    made.removeAttribute("id");
    describe(made, `Not returned, ${some[0].now}`, some, value);
    inDocument[some[0].document].push([chunks.length + start, made]);
  }
  inDocument.forEach((pairs, place) => {
    const wanted = pairs.sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);
    replaceIfOther(data.documents[place].texts, wanted);
  });
}

// A link to a folded passage opens it.
byId("chosen").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link) byId(link.hash.slice(1)).open = true;
});
