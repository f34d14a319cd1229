// The text of the passages, below the strip of their document.
const OPEN = 3; // strongest passages that begin unfolded

function partOf(chunk, length) {
  const isCut = length < chunk.length;
  const found = isFound(chunk);
  const value = isInitial() ? ` · value ${number(chunk.value)}` : "";
  const how = (found ? `${chunk.rank} · ${relevanceOf(chunk)}` : "filled in") + value;
  let note = chunk.embedded && found ? " · embedded text" : "";
  if (isCut) note = ` · ${grouped(length)} of ${counted(chunk.length, "character")}`;
  return element(
    "div", { className: found ? "part" : "part fill" },
    element("small", {}, `chunk ${chunk.index} · ${how}${note}`), textOf(chunk, isCut ? length : Infinity),
  );
}

function relevanceOf(chunk) {
  const [own, withNeighbors] = [number(chunk.relevance), number(chunk.credited)];
  return `relevance ${own}${Number(withNeighbors) > Number(own) ? `, ${withNeighbors} with neighbors` : ""}`;
}

/** What a passage costs, if it costs something: the values of its chunks minus its own value. */
function costOf(passage, some) {
  const sum = some.reduce((total, chunk) => total + (chunk.value ?? 0), 0);
  const cost = number(sum - passage.value);
  if (!isInitial() || cost < 0.01) return "";
  return ` (chunks ${number(Number(number(passage.value)) + Number(cost))}, passage cost −${cost})`;
}

function textOf(chunk, length = Infinity) {
  const whole = chunk.text ?? [`(text not read: ${counted(chunk.length ?? 0, "character")})`];
  const parts = whole.map((part) => {
    const shown = part.slice(0, length);
    length -= shown.length;
    return shown;
  });
  const className = isAligned(parts.join("")) ? "text aligned" : "text";
  return element("div", { className, dir: "auto" }, ...marked(parts));
}

/** True if a block of code begins, or most lines are code or rows: indented, between bars, or with gaps. */
function isAligned(text) {
  if (/^ {0,3}(```|~~~)/m.test(text)) return true;
  const lines = text.split("\n").filter((line) => line.trim());
  const aligned = lines.filter((line) => /^( {3}|\t|\|)|\S {3,}\S/.test(line));
  return aligned.length > 1 && 2 * aligned.length >= lines.length;
}

function whichOf(some) {
  const [first, last] = [some[0].index, some[some.length - 1].index];
  return `${first === last ? "chunk" : "chunks"} ${range(first, last)}`;
}

/** Show the passages in the order of the answer, in the list and below their documents. */
function showPassages(passages) {
  const strongest = [...passages].sort((a, b) => b.value - a.value).slice(0, OPEN);
  const links = [];
  for (const doc of data.documents) doc.texts.replaceChildren();
  passages.forEach((passage, n) => {
    const some = chunks.slice(passage.start, passage.end);
    const id = `passage-${n + 1}`;
    const value = `value\u00a0${number(passage.value)}`;
    const name = element("bdi", { title: pathOf(some[0]) }, nameOf(some[0]));
    links.push(element("li", {}, element("a", { href: `#${id}` }, name, `, ${whichOf(some)}`), ` · ${value}`));
    const summary = element(
      "summary", {}, element("strong", {}, `Passage ${n + 1}`),
      ` · ${whichOf(some)} · ${counted(passage.length, "character")} · ${value}${costOf(passage, some)}`,
    );
    // Pictures are of the passages that were returned.
    const pages = Object.entries((isInitial() && data.pictures[n]) || {});
    const pictures = pages.map(([page, src]) => element("img", { src, alt: `Page ${page}, the passage is marked` }));
    const open = strongest.includes(passage);
    let rest = passage.length;
    const parts = some.map((chunk) => {
      const part = partOf(chunk, rest);
      rest -= chunk.length;
      return part;
    });
    data.documents[some[0].document].texts.append(
      element("details", { className: "passage", id, open }, summary, ...parts, ...pictures),
    );
  });
  byId("chosen").replaceChildren(...links);
}

// A link to a folded passage opens it.
byId("chosen").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link) byId(link.hash.slice(1)).open = true;
});
