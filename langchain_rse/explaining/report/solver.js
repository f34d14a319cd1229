// The exact solver of langchain_rse.engine and the selection of langchain_rse.query, in the same
// order of operations, so that ties fall as they do in Python. Nothing here knows of the page.
"use strict";

const ROUNDING = 1e-10;
const LEAST_PENALTY = 1e-200;
const DIGITS = 50;

function neighborCredit(relevance, credit, radius) {
  const size = relevance.length;
  const missed = new Array(size).fill(1);
  for (let distance = 1; distance <= Math.min(radius, size - 1); distance++) {
    const share = credit ** distance;
    for (let i = distance; i < size; i++) missed[i] *= 1 - share * relevance[i - distance];
    for (let i = 0; i + distance < size; i++) missed[i] *= 1 - share * relevance[i + distance];
  }
  return relevance.map((r, i) => r + (1 - r) * (1 - missed[i]));
}

// The columns' relevance with neighbor credit, window by window. A document of one chunk is
// credited as if chunks like it stood around it; excluded candidates have no credit.
function creditColumns(columns, credit, radius) {
  const credited = [];
  columns.starts.forEach((start, number) => {
    const window = columns.relevance.slice(start, columns.starts[number + 1]);
    const alone = columns.alone[start];
    const given = alone ? new Array(2 * radius + 1).fill(window[0]) : window;
    const found = neighborCredit(given, credit, radius);
    credited.push(...(alone ? [found[radius]] : found));
  });
  return credited.map((value, column) => (columns.uncredited[column] ? 0 : value));
}

// numpy's order of adding in np.add.reduceat: the first number and the pairwise sum of the others.
function pairwiseSum(values, start, end) {
  const size = end - start;
  if (size > 128) {
    const half = Math.floor(size / 2) - (Math.floor(size / 2) % 8);
    return pairwiseSum(values, start, start + half) + pairwiseSum(values, start + half, end);
  }
  let sum = 0;
  let place = start;
  if (size >= 8) {
    const r = values.slice(start, start + 8);
    for (place = start + 8; place + 8 <= end; place += 8)
      for (let k = 0; k < 8; k++) r[k] += values[place + k];
    sum = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
  }
  for (; place < end; place++) sum += values[place];
  return sum;
}

function roundHalfEven(value) {
  return Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value);
}

// The quotient of two BigInts, rounded once.
function divide(numerator, denominator) {
  const [top, bottom] = [numerator < 0n ? -numerator : numerator, denominator];
  const shift = Math.max(0, 72 - 4 * (top.toString(16).length - bottom.toString(16).length));
  const shifted = top << BigInt(shift);
  const quotient = shifted / bottom;
  const sticky = quotient * bottom === shifted ? quotient : quotient | 1n;
  return ((numerator < 0n ? -1 : 1) * Number(sticky)) / 2 ** shift;
}

// The threshold penalty of each chunk of a segment: see langchain_rse/engine/thresholds.py.
function segmentThresholds(weights, gains, cost) {
  let [x, y] = [0n, 0n];
  const gates = [[0n, -cost, -cost]];
  weights.forEach((weight, i) => {
    x += 2n * weight;
    y += gains[i];
    const right = gains[i] ? x + cost : gates.pop()[2];
    gates.push([y, x - cost, right]);
  });
  gates[gates.length - 1] = [y, x + cost, x + cost];
  const slopes = tautString(gates);
  const thresholds = [];
  let [gap, next] = [0, 0];
  for (const gain of gains) {
    if (!gain) {
      gap += 1;
      continue;
    }
    const threshold = 2 / slopes[next++];
    const before = Math.min(thresholds[thresholds.length - 1], threshold);
    for (; gap > 0; gap--) thresholds.push(before);
    thresholds.push(threshold);
  }
  return thresholds;
}

function tautString(gates) {
  const slopes = [];
  let knot = 0;
  let x = gates[0][1];
  while (knot < gates.length - 1) {
    let [low, high] = [[-Infinity, 0, 0n], [Infinity, 0, 0n]];
    let bend = null;
    for (let number = knot + 1; number < gates.length; number++) {
      const [height, left, right] = gates[number];
      const rise = height - gates[knot][0];
      const [toLeft, toRight] = [divide(left - x, rise), divide(right - x, rise)];
      if (toLeft > high[0] || toRight < low[0]) {
        bend = toLeft > high[0] ? high : low;
        break;
      }
      if (toLeft >= low[0]) low = [toLeft, number, left];
      if (toRight <= high[0]) high = [toRight, number, right];
    }
    const [slope, number, end] = bend || low;
    for (; knot < number; knot++) slopes.push(slope);
    x = end;
  }
  return slopes;
}

class Problem {
  constructor({ relevance, lengths, starts, documentLengths }, segmentCost) {
    const size = lengths.length;
    Object.assign(this, { relevance, weights: lengths });
    this.starts = new Set([...starts, size]);
    this.chunks = [...relevance.keys()].filter((chunk) => relevance[chunk] > 0);
    const total = this.total(this.chunks);
    this.unit = this.chunks.length ? total / this.chunks.length : 1;
    this.costs = documentLengths.map((length) => segmentCost * Math.min(length, this.unit));
    let edge = -1;
    this.gaps = this.chunks.map((chunk, k) => {
      const before = edge;
      edge = starts.findLast((start) => start <= chunk) ?? 0;
      if (k === 0 || edge !== before) return Infinity;
      return lengths.slice(this.chunks[k - 1] + 1, chunk).reduce((a, b) => a + b, 0);
    });
  }

  total(chunks) {
    return chunks.reduce((sum, chunk) => sum + this.weights[chunk], 0);
  }

  // The segments [start, end) of the best solution for one penalty.
  solve(given) {
    const penalty = Math.max(given, LEAST_PENALTY);
    const { chunks, relevance, weights } = this;
    const values = chunks.map((c) => weights[c] * relevance[c] - penalty * weights[c]);
    const losses = values.map((value, k) => penalty * this.gaps[k] - Math.min(value, 0));
    const good = [...values.keys()].filter((k) => values[k] > 0);
    let outside = Infinity;
    const [bridges, ends] = [[], []];
    good.forEach((k, number) => {
      const from = number ? good[number - 1] + 1 : 0;
      const gap = number ? losses[from] + pairwiseSum(losses, from + 1, k + 1) : Infinity;
      const cost = penalty * this.costs[chunks[k]];
      const bridge = gap < cost - outside;
      outside = (bridge ? outside + gap : cost) - values[k];
      bridges.push(bridge);
      ends.push(outside < 0);
      outside = Math.max(outside, 0);
    });
    const segments = [];
    for (let last = good.length - 1; last >= 0; last--) {
      let first = last;
      if (!ends[last]) continue;
      while (bridges[first]) first -= 1;
      segments.push([chunks[good[first]], chunks[good[last]] + 1]);
      last = first;
    }
    return this.joined(segments.reverse());
  }

  joined(segments) {
    const joined = [];
    for (const [start, end] of segments) {
      const last = joined[joined.length - 1];
      if (last && last[1] === start && !this.starts.has(start)) last[1] = end;
      else joined.push([start, end]);
    }
    return joined;
  }

  thresholds(segments) {
    const exponent = Math.floor(Math.log2(this.unit)) + 2;
    let digits = DIGITS - exponent; // as math.frexp has it: 2 ** (exponent - 1) <= unit
    while (2 ** (DIGITS - digits - 1) > this.unit) digits += 1;
    const scale = 2 ** digits;
    const whole = (amount) => BigInt(roundHalfEven(amount * scale));
    const ranked = [];
    for (const [start, end] of segments) {
      const [weights, gains] = [[], []];
      for (let chunk = start; chunk < end; chunk++) {
        const faintest = this.relevance[chunk] > 0 ? 1 / scale : 0;
        weights.push(whole(this.weights[chunk]));
        gains.push(whole(Math.max(this.weights[chunk] * this.relevance[chunk], faintest)));
      }
      const cost = whole(Math.min(this.costs[start], 2 ** 60 * this.unit));
      segmentThresholds(weights, gains, cost).forEach((t, n) => ranked.push([t, start + n]));
    }
    return ranked;
  }

  // The chunks in the order in which a growing budget takes them, as many as the budget needs.
  order(budget, penalty) {
    let low = this.firstPenalty(budget, penalty);
    let ranked;
    for (;;) {
      ranked = this.thresholds(this.solve(low));
      if (low > penalty) ranked = ranked.filter(([t]) => t > low * (1 + ROUNDING));
      if (low <= penalty || this.total(ranked.map((pair) => pair[1])) > budget) break;
      low = Math.max(penalty, low / 2);
    }
    ranked.sort((a, b) => b[0] - a[0]);
    const [order, taken] = [[], new Set()];
    let room = budget * (1 + ROUNDING);
    for (let i = 0; i < ranked.length && room >= 0; ) {
      const group = new Set();
      for (const t = ranked[i][0]; i < ranked.length && ranked[i][0] === t; i++)
        group.add(ranked[i][1]);
      const added = group.size > 1 ? this.densestFirst(group, taken) : [...group];
      added.forEach((chunk) => taken.add(chunk));
      order.push(...added);
      room -= this.total(added);
    }
    return order;
  }

  firstPenalty(budget, penalty) {
    const alone = this.chunks.map((c) => {
      const cost = this.weights[c] + this.costs[c];
      return [(this.weights[c] * this.relevance[c]) / cost, this.weights[c]];
    });
    alone.sort((a, b) => b[0] - a[0]);
    let [sum, beyond] = [0, 0];
    while (beyond < alone.length && sum + alone[beyond][1] <= budget) sum += alone[beyond++][1];
    return beyond + 1 < alone.length ? Math.max(alone[beyond + 1][0], penalty) : penalty;
  }

  // Chunks of equal threshold, those that add most for their cost first.
  densestFirst(group, before) {
    const taken = new Set(before);
    const density = (chunk) => {
      const gain = this.weights[chunk] * this.relevance[chunk];
      const cost = this.weights[chunk] + (1 - this.neighbors(chunk, taken)) * this.costs[chunk];
      if (cost > 0) return gain / cost;
      return cost < 0 || gain > 0 ? Infinity : 0;
    };
    const left = [...group].sort((a, b) => a - b);
    const densities = new Map(left.map((chunk) => [chunk, density(chunk)]));
    const order = [];
    while (left.length) {
      let best = 0;
      for (let n = 1; n < left.length; n++)
        if (densities.get(left[n]) > densities.get(left[best])) best = n;
      const [chunk] = left.splice(best, 1);
      order.push(chunk);
      taken.add(chunk);
      for (const beside of [chunk - 1, chunk + 1])
        if (group.has(beside)) densities.set(beside, density(beside));
    }
    return order;
  }

  neighbors(chunk, chunks) {
    const before = chunks.has(chunk - 1) && !this.starts.has(chunk);
    return before + (chunks.has(chunk + 1) && !this.starts.has(chunk + 1));
  }

  extended(start, end, chunks) {
    while (chunks.has(start - 1) && !this.starts.has(start)) start -= 1;
    while (chunks.has(end) && !this.starts.has(end)) end += 1;
    return [start, end];
  }

  valueOf(start, end, penalty) {
    let value = 0;
    for (let c = start; c < end; c++) value += this.weights[c] * (this.relevance[c] - penalty);
    return (value - penalty * this.costs[start]) / this.unit;
  }

  // The order in steps that make no segment worth less than nothing, after some chunks that are
  // taken first, whatever they are worth.
  steps(order, penalty, first) {
    const steps = first.map((chunk) => [chunk, chunk + 1]);
    const [taken, heldBack] = [new Set(first), new Set()];
    for (const chunk of order) {
      if (taken.has(chunk)) continue;
      const [start, end] = this.extended(chunk, chunk + 1, heldBack);
      const isGain =
        this.relevance[chunk] >= penalty && end - start === 1 && this.neighbors(chunk, taken) > 0;
      const segment = this.extended(start, end, taken);
      if (isGain || this.valueOf(...segment, penalty) >= 0) {
        steps.push([start, end]);
        for (let c = start; c < end; c++) taken.add(c) && heldBack.delete(c);
      } else heldBack.add(chunk);
    }
    return steps;
  }
}

// The k most valuable segments, of which one has the best candidate; all without a k.
function bestSegments(segments, relevance, k) {
  if (k === null || k === undefined || segments.length <= k) return segments;
  const highest = ({ start, end }) => Math.max(...relevance.slice(start, end));
  const first = segments.reduce((a, b) => (highest(b) > highest(a) ? b : a));
  const kept = new Set([first, ...segments.filter((segment) => segment !== first)].slice(0, k));
  return segments.filter((segment) => kept.has(segment));
}

// What is chosen from, for settings: the steps in which a growing budget takes chunks, and their
// values. `columns` has one number a chunk: relevance (before credit), lengths, documentLengths,
// found (1 for candidates), alone, uncredited; and `starts`, the first column of each window.
function planSegments(columns, settings) {
  const { irrelevant_chunk_penalty: penalty, budget } = settings;
  const credited = creditColumns(columns, settings.neighbor_weight, settings.neighbor_radius);
  const problem = new Problem({ ...columns, relevance: credited }, settings.segment_cost);
  const all = columns.lengths.reduce((a, b) => a + b, 0);
  const room = budget ?? Infinity;
  const values = credited.map((c, n) => (columns.lengths[n] / problem.unit) * (c - penalty));
  const worth = [...values.keys()].filter((n) => {
    const r = columns.relevance[n];
    return columns.found[n] && r > 0 && r >= penalty && values[n] >= 0;
  });
  worth.sort((a, b) => columns.relevance[b] - columns.relevance[a]);
  const candidates = [...values.keys()].filter((n) => columns.found[n]);
  const better = (a, b) => (columns.relevance[b] > columns.relevance[a] ? b : a);
  const best = candidates.reduce(better, candidates[0]);
  const first = worth.includes(best) && columns.lengths[best] <= room ? [best] : [];
  const steps = problem.steps(problem.order(Math.min(room, all), penalty), penalty, first);
  return { problem, penalty, credited, values, worth, steps, room };
}

// The segments {start, end, value} of a plan, best first, for its budget or a smaller one, and the
// number of steps that fit.
function takeSteps(plan, room = plan.room) {
  const { problem, penalty, values } = plan;
  const chosen = [];
  let used = 0;
  for (const [start, end] of plan.steps) {
    const length = problem.weights.slice(start, end).reduce((a, b) => a + b, 0);
    if (used + length > room) break;
    used += length;
    chosen.push([start, end]);
  }
  const included = chosen.length;
  const bounds = problem.joined(chosen.sort((a, b) => a[0] - b[0]));
  const segments = bounds.map(([start, end]) => {
    const value = problem.valueOf(start, end, penalty);
    if (value >= 0) return { start, end, value };
    // It is there for the best candidate, which is rated without a segment cost.
    return { start, end, value: values.slice(start, end).reduce((a, b) => a + b, 0) };
  });
  if (!segments.length) { // the best candidate that fits and is worth the penalty
    const start = plan.worth.find((n) => problem.weights[n] <= room);
    if (start !== undefined) segments.push({ start, end: start + 1, value: values[start] });
  }
  segments.sort((a, b) => b.value - a.value || a.start - b.start);
  return { segments, included, used };
}

// The segments that the query pipeline selects for these settings.
function chooseSegments(columns, settings) {
  return takeSteps(planSegments(columns, settings));
}
