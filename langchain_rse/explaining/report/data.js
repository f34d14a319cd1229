// The data of the trace, and helpers. All text is inserted as text, never as HTML.
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

/** Where a long piece of code may break into lines: behind a parenthesis, or a dot within a name. */
const CODE_BREAK = /(?<=[(\[]|[a-z]\.)(?=\w)/i;
const breakable = (text) => text.split(CODE_BREAK).flatMap((piece, n) => (n ? [element("wbr"), piece] : piece));
// Every second part of a text is a query word.
const marked = (parts) => parts.flatMap((part, n) => (n % 2 ? element("mark", {}, part) : breakable(part)));

// To the solver, an excluded candidate is a chunk that was not found.
const isFound = (chunk) => Boolean(chunk.found) && !chunk.excluded;
const nameOf = (chunk) => data.documents[chunk.document].name;
const pathOf = (chunk) => data.documents[chunk.document].path ?? "";

const chunks = []; // the chunks that the solver considered, by column
data.documents.forEach((doc, place) => {
  for (const chunk of doc.chunks) {
    chunk.document = place;
    chunk.outcome ??= "no candidate";
    if (!chunk.unseen) chunk.column = chunks.push(chunk) - 1;
  }
});
