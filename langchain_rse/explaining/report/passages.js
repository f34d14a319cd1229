// The text of the segments, which people read as passages, below the strip of their document.
const OPEN = 3; // strongest segments that begin unfolded
const PREVIEW = 120; // characters of a folded segment

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
  const blocks = (chunk.text ?? [[false, missing]]).flatMap(([isCode, ...parts]) =>
    isCode ? [element("code", {}, ...marked(parts))] : marked(parts));
  return element("div", { className: "text", dir: "auto" }, ...blocks);
}

const relevanceOf = (chunk) => (isFound(chunk) ? chunk.relevance ?? 0 : 0);
const bestOf = (some) => some.reduce((a, b) => (relevanceOf(b) > relevanceOf(a) ? b : a));
function whichOf(some) {
  const [first, last] = [some[0].index, some[some.length - 1].index];
  return `${first === last ? "chunk" : "chunks"} ${range(first, last)}`;
}

// Made once for each best chunk, so that a growing segment stays folded or unfolded.
function segmentOf(some, isOpen) {
  const { made } = data.documents[some[0].document];
  const best = bestOf(some);
  if (!made.has(best)) {
    made.set(best, element("details", { className: "segment", open: isOpen }, element("summary")));
  }
  const segment = made.get(best);
  replaceIfOther(segment, [segment.firstElementChild, ...some.map(partOf)]);
  return segment;
}

function describe(segment, title, some, value) {
  const preview = (bestOf(some).text ?? []).flatMap(([, ...parts]) => parts).join("").trim().slice(0, PREVIEW).replace(/\S*$/, "…");
  segment.firstElementChild.replaceChildren(
    element("strong", {}, title),
    ` · ${whichOf(some)} · ${counted(lengthOf(some), "character")} · value ${number(value)}`,
    element("bdi", { className: "preview" }, preview),
  );
}

/** Show the segments in the order of the answer, then the segments that were not returned. */
function showSegments(segments, unreturned) {
  const strongest = [...segments].sort((a, b) => b.value - a.value).slice(0, OPEN);
  const links = [];
  const inDocument = data.documents.map(() => []);
  segments.forEach((segment, n) => {
    const some = chunks.slice(segment.start, segment.end);
    const name = element("bdi", { title: pathOf(some[0]) }, nameOf(some[0]));
    const link = element("a", { href: `#segment-${n + 1}` }, name, `, ${whichOf(some)}`);
    links.push(element("li", {}, link, ` · value\u00a0${number(segment.value)}`));
    const made = segmentOf(some, strongest.includes(segment));
    made.id = `segment-${n + 1}`;
    describe(made, `Passage ${n + 1}`, some, segment.value);
    inDocument[some[0].document].push([segment.start, made]);
  });
  byId("chosen").replaceChildren(...links);
  for (const { start, end, value } of unreturned) {
    const some = chunks.slice(start, end);
    const made = segmentOf(some, false);
    made.removeAttribute("id");
    describe(made, `Not returned, ${some[0].now}`, some, value);
    inDocument[some[0].document].push([chunks.length + start, made]);
  }
  inDocument.forEach((pairs, place) => {
    const wanted = pairs.sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);
    replaceIfOther(data.documents[place].texts, wanted);
  });
}

// A link to a folded segment opens it.
byId("chosen").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link) byId(link.hash.slice(1)).open = true;
});
