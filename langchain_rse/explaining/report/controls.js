// Sliders, the budget that plays, and the settings to copy.
const budgetOf = (value) => (value === null ? "no limit" : `${grouped(value)} ${data.unit}`);
const rooms = roomsOf(); // the budgets that the slider has
const refreshers = []; // each shows a setting on its slider

function roomsOf() {
  const total = columns.lengths.reduce((sum, length) => sum + length, 0) / data.rate;
  const budgets = [0];
  for (let size = 250; size < total; size *= 2) budgets.push(size, size * 1.5);
  if (initial.max_context_length !== null) budgets.push(initial.max_context_length);
  return [...new Set(budgets)].sort((a, b) => a - b).concat([null]);
}

/** The place on the slider of a budget, which can lie between two of its own. */
function placeOf(budget) {
  if (budget === null) return rooms.length - 1;
  return rooms.findLastIndex((room) => room !== null && room <= budget);
}

function addSliders() {
  const give = (share) => `${share} of relevance`;
  const SLIDERS = [
    ["irrelevant_chunk_penalty", "Penalty", "Text below this relevance is left out, except between better chunks.", (value) => `relevance ${value}`, 1],
    ["neighbor_weight", "Neighbor weight", "How much of its relevance a chunk gives to the one beside it.", give, 1],
    ["segment_cost", "Segment cost", "What a segment costs, in average chunks: more makes fewer and longer segments.", (value) => `${value} chunks`, Math.max(2, initial.segment_cost)],
    ["max_context_length", "Budget", "The most text that all segments have together.", budgetOf, rooms.length - 1],
  ];
  for (const [name, label, hint, shown, max] of SLIDERS) {
    const isBudget = name === "max_context_length";
    const output = element("output");
    const about = element("small", { id: `about-${name}` }, hint);
    const input = element("input", { type: "range", ariaLabel: label, min: 0, max, step: isBudget ? 1 : 0.01, name });
    input.setAttribute("aria-describedby", about.id);
    const tell = () => {
      output.textContent = shown(state[name]);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => {
      const value = Number(input.value);
      stopPlaying();
      state[name] = isBudget ? rooms[value] : value;
      tell();
      update();
    });
    refreshers.push(() => {
      input.value = isBudget ? placeOf(state[name]) : state[name];
      tell();
    });
    byId("fieldset").append(element("label", {}, element("span", {}, label), output, input, about));
  }
  refresh();
}
const refresh = () => refreshers.forEach((one) => one());

byId("reset").addEventListener("click", () => {
  stopPlaying();
  Object.assign(state, initial);
  refresh();
  update();
});

// The budget grows from nothing, and the segments with it: each budget's answer contains that of a
// smaller one, in the order of the plan's steps.
const PLAYING_TIME = 4000; // milliseconds
const STILL_STEPS = 4; // for those who want no motion
let stopPlaying = () => {};

function play() {
  const full = state.max_context_length;
  const plan = planOf(state);
  const { segments } = answerOf(plan, takeSteps(plan)); // all that is to come: its documents stay
  const total = segments.reduce((sum, { start, end }) => sum + lengthOf(chunks.slice(start, end)), 0);
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const said = byId("played").textContent;
  const begun = performance.now();
  let frame = null;
  let included = null;
  const stop = () => {
    cancelAnimationFrame(frame);
    stopPlaying = () => {};
    byId("play").textContent = "▶ Play the budget";
    byId("played").textContent = said;
    byId("result").removeAttribute("aria-busy");
    document.body.classList.remove("playing");
    refresh();
    update();
  };
  const grow = (now) => {
    let share = Math.max(now - begun, 0) / PLAYING_TIME;
    if (isStill) share = Math.floor(share * STILL_STEPS) / STILL_STEPS;
    if (share >= 1) {
      state.max_context_length = full;
      stop();
      return;
    }
    const room = Math.floor(share * total);
    state.max_context_length = Math.floor(room / data.rate);
    refresh();
    const limit = full === null ? data.unit : `of ${budgetOf(full)}`;
    byId("played").textContent = `${grouped(state.max_context_length)} ${limit}`;
    const taken = takeSteps(plan, room);
    if (taken.included !== included) {
      included = taken.included;
      if (!included) taken.segments = [];
      show(answerOf(plan, taken), false, segments);
    }
    frame = requestAnimationFrame(grow);
  };
  stopPlaying = stop;
  byId("play").textContent = "■ Stop";
  byId("result").setAttribute("aria-busy", "true"); // is read aloud once, at the end
  document.body.classList.add("playing");
  grow(begun);
}
byId("play").addEventListener("click", () => {
  if (document.body.classList.contains("playing")) stopPlaying();
  else play();
});

/** The settings as arguments of a retriever or a call, with an RSEConfig for those of experts. */
function showSettings() {
  const budget = state.max_context_length === null ? "None" : grouped(state.max_context_length).replaceAll(",", "_");
  const setting = (name) => `${name}=${state[name]}`;
  const lines = [...data.arguments];
  const config = [...data.config];
  if (data.enabled) {
    lines.unshift(setting("irrelevant_chunk_penalty"), `max_context_length=${budget}`);
    config.unshift(setting("neighbor_weight"), setting("segment_cost"));
  }
  if (config.length) {
    const inside = config.map((line) => `    ${line},\n`).join("");
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
    byId("copied").textContent = "Selected: copy it with Ctrl+C.";
  }
});

// Paper cannot be unfolded: what belongs to the answer is printed open.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("#documents details:not([open]), .used:not([open])")];
  for (const one of unfolded) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of unfolded) one.open = false;
});
