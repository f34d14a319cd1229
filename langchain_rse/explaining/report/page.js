// Two sliders, which show answers that Python has computed, and the settings to copy.
const state = { penalty: data.penalty, budget: data.budget };
const isInitial = () => state.penalty === data.penalty && state.budget === data.budget;
const budgetOf = (budget) => (budget === null ? "no limit" : `${grouped(budget)} characters`);
let numbers = new Map(); // the passage of each column in the answer
const refreshers = []; // each shows a setting on its slider

/** The passages for the positions of the sliders: each has four numbers. */
function answerNow() {
  let list = data.returned;
  if (!isInitial()) {
    const { penalties, budgets, rows, answers } = data.alternatives;
    list = answers[rows[penalties.indexOf(state.penalty)][budgets.indexOf(state.budget)]];
  }
  return list.map(([start, end, value, length]) => ({ start, end, value, length }));
}

/** The outcome of a chunk; for the original settings, the outcome in the trace. */
function outcomeOf(chunk) {
  if (isInitial()) return chunk.outcome;
  if (numbers.has(chunk.column)) return isFound(chunk) ? "returned" : "filled";
  return chunk.excluded ?? (chunk.found ? "not returned" : "no candidate");
}

function update() {
  refreshers.forEach((tell) => tell());
  const passages = answerNow();
  numbers = new Map();
  passages.forEach(({ start, end }, n) => {
    for (let at = start; at < end; at++) numbers.set(at, { number: n + 1, isFirst: at === start });
  });
  for (const doc of data.documents) {
    for (const chunk of doc.chunks) {
      chunk.now = outcomeOf(chunk);
      showBar(chunk);
    }
  }
  document.body.style.setProperty("--penalty", state.penalty);
  for (const name of ["returned", "filled"]) byId(`${name}-key`).hidden = !chunks.some((chunk) => chunk.now === name);
  byId("left-key").hidden = numbers.size === data.documents.flatMap((doc) => doc.chunks).length;
  byId("passage-key").hidden = !passages.length;
  showPassages(passages);
  foldDocuments(passages);
  const length = passages.reduce((sum, passage) => sum + passage.length, 0);
  byId("result").textContent = `${counted(passages.length, "passage")}, ${counted(length, "character")}`;
  showSettings();
  if (selected) showChunk(selected);
}

/** The settings of the sliders as arguments of a retriever or a call. */
function showSettings() {
  const budget = state.budget === null ? "None" : grouped(state.budget).replaceAll(",", "_");
  const header = data.has_headers && !isInitial() ? "\ninclude_header=False," : "";
  byId("settings").textContent = `irrelevant_chunk_penalty=${state.penalty},\nmax_context_length=${budget},${header}`;
}

function addSlider(name, label, hint, values, shown) {
  const output = element("output");
  const about = element("small", { id: `about-${name}` }, hint);
  const input = element("input", { type: "range", ariaLabel: label, min: 0, max: values.length - 1, step: 1, name });
  input.setAttribute("aria-describedby", about.id);
  const tell = () => {
    input.value = values.indexOf(state[name]);
    output.textContent = shown(state[name]);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    state[name] = values[Number(input.value)];
    update();
  });
  refreshers.push(tell);
  byId("sliders").append(element("label", {}, element("span", {}, label), output, input, about));
}

if (data.alternatives) {
  const { penalties, budgets } = data.alternatives;
  addSlider("penalty", "Threshold", "How relevant text must be. Weaker chunks are returned only next to stronger ones.", penalties, (value) => `relevance ${value}`);
  addSlider("budget", "Budget", "The maximum length of all passages together.", budgets, budgetOf);
  byId("reset").addEventListener("click", () => {
    Object.assign(state, { penalty: data.penalty, budget: data.budget });
    update();
  });
}

// A print has the whole answer unfolded.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("#documents details, .used")) details.open = true;
});

addDocuments();
update();
byId("gap-key").hidden = !document.querySelector(".gap");
byId("others").open = !data.returned.length && data.documents.some((doc) => !doc.reason);
const found = chunks.filter((chunk) => chunk.outcome === "returned");
const [first] = found.sort((a, b) => (b.relevance ?? 0) - (a.relevance ?? 0));
if (first && matchMedia("(min-width: 60rem)").matches) showChunk(first);
