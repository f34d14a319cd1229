// Two sliders, which show answers that Python has computed, and the settings to copy.
const state = { penalty: data.penalty, budget: data.budget };
const budgetOf = (budget) => (budget === null ? "no limit" : `${grouped(budget)} characters`);

/** The passages for the positions of the sliders. */
function answerNow() {
  if (isInitial()) return recorded;
  const { penalties, budgets, rows, answers } = data.alternatives;
  const row = rows[penalties.indexOf(state.penalty)];
  return passagesOf(answers[row[budgets.indexOf(state.budget)]]);
}
const isInitial = () => state.penalty === data.penalty && state.budget === data.budget;

const refreshers = []; // each shows a setting on its slider
function addSlider(name, label, hint, values, shown) {
  const output = element("output");
  const about = element("small", { id: `about-${name}` }, hint);
  const input = element("input", { type: "range", ariaLabel: label, min: 0, max: values.length - 1, step: 1, name });
  input.setAttribute("aria-describedby", about.id);
  const tell = () => {
    output.textContent = shown(state[name]);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    state[name] = values[Number(input.value)];
    tell();
    update();
  });
  refreshers.push(() => {
    input.value = values.indexOf(state[name]);
    tell();
  });
  byId("sliders").append(element("label", {}, element("span", {}, label), output, input, about));
}

if (data.alternatives) {
  const { penalties, budgets } = data.alternatives;
  addSlider("penalty", "Penalty", "How relevant text must be. Weaker chunks are returned only next to stronger ones.", penalties, (value) => `relevance ${value}`);
  addSlider("budget", "Budget", "The maximum length of all passages together.", budgets, budgetOf);
  refreshers.forEach((one) => one());
  byId("reset").addEventListener("click", () => {
    Object.assign(state, { penalty: data.penalty, budget: data.budget });
    refreshers.forEach((one) => one());
    update();
  });
}

/** The settings as arguments of a retriever or a call; fields of RSEConfig are in an RSEConfig. */
function showSettings() {
  const budget = state.budget === null ? "None" : grouped(state.budget).replaceAll(",", "_");
  const lines = [`irrelevant_chunk_penalty=${state.penalty}`, `max_context_length=${budget}`, ...data.arguments];
  if (data.config.length) {
    const inside = data.config.map((line) => `    ${line},\n`).join("");
    lines.push(`rse_config=RSEConfig(\n${inside})`);
  }
  byId("settings").textContent = lines.map((line) => `${line},`).join("\n");
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
    byId("copied").textContent = "Selected. Press Ctrl+C to copy.";
  }
});

// A print has the whole answer unfolded.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("#documents details:not([open]), .used:not([open])")];
  for (const one of unfolded) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of unfolded) one.open = false;
});
