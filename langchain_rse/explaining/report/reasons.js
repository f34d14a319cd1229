// Why a chunk is in the answer, or is not: for the settings that are tried, by the rules of
// langchain_rse/query/tracing.py.
const WHY = {
  "segment cost": "it is worth its text, but not the segment_cost of a segment of its own",
  "no room": "chunks that are worth more come first and reach the budget",
  "minimum value": "its segment is worth less than minimum_value",
  "beyond k": "its segment is not among the k best",
  "beyond max_per_document": "its document has that many better segments",
  "no candidate": "it was not found, and is in no segment",
};

/** Two numbers with as many digits as tell them apart. */
function apart(a, b) {
  let digits = 2;
  while (digits < 9 && a !== b && a.toFixed(digits) === b.toFixed(digits)) digits += 1;
  return [a.toFixed(digits), b.toFixed(digits)];
}

/** Why a chunk has its outcome, in a sentence. */
function whyOf(chunk, now) {
  if (chunk.why && now === chunk.outcome) return chunk.why; // the trace's own words
  const penalty = state.irrelevant_chunk_penalty;
  const relevance = chunk.relevance ?? 0;
  const credited = chunk.credited ?? 0;
  if (isShown(now)) {
    if (relevance >= penalty) {
      const [alone, least] = apart(relevance, penalty);
      return `its relevance ${alone} reaches the penalty ${least}`;
    }
    if (credited >= penalty) {
      const [lifted, least] = apart(credited, penalty);
      return `its neighbors lift it from ${number(relevance)} to ${lifted}; the penalty is ${least}`;
    }
    return `it is below the penalty ${number(penalty)}, between chunks that are worth their text`;
  }
  if (now === "below the penalty") {
    const [lifted, least] = apart(credited, penalty);
    return `its relevance, ${lifted} with its neighbors, is below the penalty ${least}`;
  }
  const limit = state.max_context_length;
  if (now === "no room" && data.unit === "characters" && chunk.length > limit) {
    return `${grouped(chunk.length)} characters: longer than the budget of ${grouped(limit)}`;
  }
  return WHY[now] || "";
}

/** The sum of the values of the run around each chunk that is worth the penalty, or is not. */
function runValues(values) {
  const starts = new Set(columns.starts);
  const sums = new Array(values.length);
  let first = 0;
  for (let end = 1; end <= values.length; end++) {
    const isSame = !starts.has(end) && values[end] > 0 === values[end - 1] > 0;
    if (end < values.length && isSame) continue;
    sums.fill(values.slice(first, end).reduce((a, b) => a + b, 0), first, end);
    first = end;
  }
  return sums;
}

/** The outcome of each column. */
function outcomesOf(plan, answer, returned, unreturned) {
  const outcomes = new Array(chunks.length);
  const set = (segments, outcome) => {
    for (const { start, end } of segments) outcomes.fill(outcome, start, end);
  };
  set(unreturned, "beyond k");
  set(returned, "returned");
  const beyond = new Set();
  for (const [start, end] of plan.steps.slice(answer.included))
    for (let at = start; at < end; at++) beyond.add(at);
  const runs = runValues(plan.values);
  return chunks.map((chunk, at) => {
    if (outcomes[at] === "returned") return isFound(chunk) ? "returned" : "filled";
    if (!chunk.found) return outcomes[at] ?? "no candidate";
    if (!isFound(chunk)) return chunk.outcome;
    return outcomes[at] ?? leftOut(plan, answer, at, beyond.has(at), runs[at]);
  });
}

/** Why a candidate is in no segment. */
function leftOut(plan, answer, at, isBeyond, run) {
  if (isBeyond) return "no room";
  if (state.min_relevance > 0 && columns.relevance[at] === 0) return "below min_relevance";
  if (plan.values[at] <= 0) return "below the penalty";
  const cost = (plan.penalty * plan.problem.costs[at]) / plan.problem.unit;
  if (run <= cost) return "segment cost";
  if (run - cost < plan.minimum) return "minimum value";
  if (state.max_per_document) return "beyond max_per_document";
  return answer.included < plan.steps.length ? "no room" : "segment cost";
}
