// What the page knows: the data of the trace, the settings that are tried, and the chunks that the
// solver sees. All text is set as text, never as HTML.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const number = (value, digits = 2) => (value === undefined ? "" : value.toFixed(digits));
const { format: grouped } = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

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
// Candidates that count: to the solver, excluded ones are chunks that were not found.
const isFound = (chunk) => Boolean(chunk.found) && !chunk.excluded;
const isShown = (outcome) => outcome === "returned" || outcome === "filled";
const nameOf = (chunk) => data.documents[chunk.document].name;
const lengthOf = (some) => some.reduce((sum, chunk) => sum + chunk.length, 0);

const chunks = []; // those that the solver sees: its columns
const columns = { starts: [], relevance: [], lengths: [], documentLengths: [] };
Object.assign(columns, { found: [], alone: [], uncredited: [] });
data.documents.forEach((doc, place) => {
  let last = null;
  for (const chunk of doc.chunks) {
    chunk.document = place;
    if (!chunk.seen) continue;
    if (chunk.index - 1 !== last) columns.starts.push(chunks.length);
    last = chunk.index;
    chunk.column = chunks.length;
    chunks.push(chunk);
    columns.relevance.push(isFound(chunk) ? chunk.relevance : 0);
    columns.lengths.push(chunk.length);
    columns.documentLengths.push(doc.length);
    columns.found.push(isFound(chunk));
    columns.alone.push(doc.chunk_count === 1);
    columns.uncredited.push(Boolean(chunk.uncredited));
  }
});

// Segments of the trace, given as document, first chunk, the one after the last, and value.
const columnsOf = (segments) => segments.map(([place, first, last, value]) => {
  const start = chunks.findIndex((chunk) => chunk.document === place && chunk.index === first);
  return { start, end: start + last - first, value };
});
// The answer as it was returned.
const recorded = {
  segments: columnsOf(data.returned),
  unreturned: columnsOf(data.unreturned),
  outcomes: chunks.map((chunk) => chunk.outcome),
  credited: chunks.map((chunk) => chunk.credited),
  values: chunks.map((chunk) => chunk.value),
};
