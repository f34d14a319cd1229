// Why a chunk is in the answer, or is not: for the settings that are tried, by the rules of
// langchain_rse/query/trace.py and in the sentences of langchain_rse.query.candidates.Reason.

/** Two numbers with as many digits as tell them apart. */
function apart(a, b) {
  let digits = 2;
  while (digits < 9 && a !== b && a.toFixed(digits) === b.toFixed(digits)) digits += 1;
  return [a.toFixed(digits), b.toFixed(digits)];
}

/** Why a chunk has its outcome, in a sentence. */
function whyOf(chunk, now) {
  if (chunk.why && now === (chunk.excluded ?? chunk.outcome)) return chunk.why;
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
  const [lifted, least] = apart(credited, penalty);
  const facts = { ...state, credited: lifted, penalty: least, length: grouped(chunk.length) };
  facts.budget = `max_context_length=${state.max_context_length}`;
  return (data.reasons[now] ?? "").replace(/\{(\w+)[^}]*\}/g, (_, name) => facts[name]);
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
    if (!isFound(chunk)) return chunk.excluded;
    return outcomes[at] ?? leftOut(plan, answer, at, beyond.has(at), runs[at]);
  });
}

/** Why a candidate is in no segment. */
function leftOut(plan, answer, at, isBeyond, run) {
  const isWorth = plan.values[at] > 0;
  if (isWorth && data.unit === "characters" && chunks[at].length > plan.room) return "too long";
  if (isBeyond) return "no room";
  if (!isWorth) return "below the penalty";
  const cost = (plan.penalty * plan.problem.costs[at]) / plan.problem.unit;
  if (run <= cost) return "segment cost";
  return answer.included < plan.steps.length ? "no room" : "segment cost";
}
