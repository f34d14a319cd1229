// What the page knows: the data of the trace. All text is set as text, never as HTML.
"use strict";
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const number = (value, digits = 2) => (value ?? 0).toFixed(digits);
const { format: grouped } = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
const range = (start, end) => (start === end ? grouped(start) : `${grouped(start)}–${grouped(end)}`);

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    name in made ? (made[name] = value) : made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Every second part of a text matches a word of the query.
const marked = (parts) => parts.map((part, n) => (n % 2 ? element("mark", {}, part) : part));

// Candidates that count: to the solver, excluded ones are chunks that were not found.
const isFound = (chunk) => Boolean(chunk.found) && !chunk.excluded;
const nameOf = (chunk) => data.documents[chunk.document].name;
const lengthOf = (some) => some.reduce((sum, chunk) => sum + chunk.length, 0);

const chunks = []; // those that the solver saw, by their column
data.documents.forEach((doc, place) => {
  for (const chunk of doc.chunks) {
    chunk.document = place;
    chunk.outcome ??= "no candidate";
    if (!chunk.unseen) chunk.column = chunks.push(chunk) - 1;
  }
});

/** Segments, given as first column, the one after the last, and value, one after the other. */
function segmentsOf(numbers) {
  const segments = [];
  for (let n = 0; n < numbers.length; n += 3) {
    const [start, end, value] = numbers.slice(n, n + 3);
    segments.push({ start, end, value });
  }
  return segments;
}
const recorded = segmentsOf(data.returned); // the answer as it was returned
