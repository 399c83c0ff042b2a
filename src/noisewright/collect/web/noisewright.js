// A client from its specification: whole numbers in, a private report out.
//
// What it must do is written in docs/reference/randomizer.md. It depends on nothing, refuses
// whatever breaks a rule, and recomputes ε before anybody is asked anything.

const WORD = 1n << 64n;
const UNIT = 1n << 62n;
const EXACT = 2 ** 53;
const LARGEST_TEXT = 2 ** 26;
const PAIRS = 2 ** 33;

function require(condition, rule) {
  if (!condition) throw new RangeError(`not a randomizer's specification: ${rule}`);
}

// --- reading: every field is named, every number whole and within its range ---------------------

function fields(part, needed, optional = []) {
  require(part !== null && typeof part === "object" && !Array.isArray(part), "an object expected");
  const names = Object.keys(part);
  require(needed.every((name) => names.includes(name)), `needs ${needed}`);
  const known = names.every((name) => needed.includes(name) || optional.includes(name));
  require(known, `has other fields than ${needed}`);
  return part;
}

function whole(value, low, high) {
  require(Number.isSafeInteger(value) && value >= low && value <= high, `${low}..${high} expected`);
  return value;
}

const count = (value, low = 1) => whole(value, low, EXACT - 1);

function big(text) {
  require(typeof text === "string" && /^(?:0|[1-9][0-9]{0,39})$/.test(text), "decimals expected");
  return BigInt(text);
}

function list(value, read, least = 1) {
  require(Array.isArray(value) && value.length >= least, "a list expected");
  return value.map((entry) => read(entry));
}

function threshold(text) {
  const value = big(text);
  require(value > 0n && value < WORD, "a threshold lies in 1..2^64-1");
  return value;
}

function cumulative(texts, length) {
  let total = 0n;
  const sums = list(texts, big).map((weight) => (total += weight));
  require(sums.length === length && total === WORD, "weights, one each, sum to 2^64");
  return sums;
}

function product(sizes) {
  require(sizes.length <= 64, "at most 64 sizes");
  const cells = sizes.reduce((total, size) => total * BigInt(size), 1n);
  require(cells <= UNIT, "at most 2^62 cells");
  return cells;
}

function bytesOf(text) {
  const plain = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
  require(typeof text === "string" && plain.test(text), "base64 expected");
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function bitsOf(bytes, length) {
  const spare = (8 - (length % 8)) % 8;
  const clean = bytes.length === Math.ceil(length / 8) && !(bytes.at(-1) & ((1 << spare) - 1));
  require(clean, "bits as stated, then zeros to a whole byte");
  return bytes;
}

const ONES = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll("0", "").length);
const bitCount = (bytes) => bytes.reduce((total, byte) => total + ONES[byte], 0);
const bitAt = (bytes, place) => (bytes[place >> 3] >> (7 - (place & 7))) & 1;

// --- randomness, byte by byte -------------------------------------------------------------------

/** Bytes of the system's generator. */
export function systemBytes(length) {
  const bytes = new Uint8Array(length);
  for (let start = 0; start < length; start += 65536) {
    globalThis.crypto.getRandomValues(bytes.subarray(start, start + 65536));
  }
  return bytes;
}

class Choices {
  constructor(source) {
    this.source = source;
  }

  number(length) {
    let value = 0n;
    const bytes = this.source(length);
    for (let i = length - 1; i >= 0; i -= 1) value = (value << 8n) | BigInt(bytes[i]);
    return value;
  }

  chance(limit) {
    return this.number(8) < limit;
  }

  place(sums) {
    const word = this.number(8);
    let low = 0;
    let high = sums.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] > word) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  below(bound) {
    if (bound <= 1n) return 0n;
    const bits = (bound - 1n).toString(2).length;
    for (;;) {
      const drawn = this.number(Math.ceil(bits / 8)) & ((1n << BigInt(bits)) - 1n);
      if (drawn < bound) return drawn;
    }
  }
}

// --- routers: how they lead on ------------------------------------------------------------------

// A node is { cells, outcomes, payload } and either `step`, which gives what to add to the report's
// number, the cell that the child sees and the child, or `outcome`, which gives a number and bytes.

function draw(node, earlier) {
  fields(node, ["op", "weights", "of"]);
  const children = list(node.of, earlier);
  const sums = cumulative(node.weights, children.length);
  const { cells } = children[0];
  require(children.every((child) => child.cells === cells), "children share their cells");
  let outcomes = 0n;
  const starts = children.map((child) => (outcomes += child.outcomes) - child.outcomes);
  const payload = children.reduce((most, child) => Math.max(most, child.payload), 0);
  const step = (cell, choices) => {
    const index = choices.place(sums);
    return [starts[index], cell, children[index]];
  };
  return { cells, outcomes, payload, step };
}

const VIEWS = {
  axes(through) {
    fields(through, ["by", "sizes", "keep"]);
    const sizes = list(through.sizes, count);
    const keep = list(through.keep, (axis) => whole(axis, 0, sizes.length - 1), 0);
    require(new Set(keep).size === keep.length, "axes differ");
    const strides = sizes.map((_, axis) => product(sizes.slice(axis + 1)));
    const seen = (cell) =>
      keep.reduce((sum, axis) => {
        const size = BigInt(sizes[axis]);
        return sum * size + ((cell / strides[axis]) % size);
      }, 0n);
    const table = product(keep.map((axis) => sizes[axis]));
    return { cells: product(sizes), seen, fits: (cells) => cells === table };
  },
  blocks(through) {
    fields(through, ["by", "domain", "width"]);
    const [cells, width] = [big(through.domain), BigInt(count(through.width))];
    require(cells > 0n && cells <= UNIT, "at most 2^62 cells");
    return { cells, seen: (cell) => cell / width, fits: (n) => n === (cells + width - 1n) / width };
  },
  table(through) {
    fields(through, ["by", "table"]);
    const table = list(through.table, (cell) => BigInt(count(cell, 0)));
    const fits = (cells) => table.every((cell) => cell < cells);
    return { cells: BigInt(table.length), seen: (cell) => table[Number(cell)], fits };
  },
};

function view(node, earlier) {
  fields(node, ["op", "of", "through"]);
  const child = earlier(node.of);
  require(Object.hasOwn(VIEWS, node.through?.by), "a view by axes, blocks or table");
  const { cells, seen, fits } = VIEWS[node.through.by](node.through);
  require(fits(child.cells), "a view fits the child's cells");
  const step = (cell) => [0n, seen(cell), child];
  return { cells, outcomes: child.outcomes, payload: child.payload, step };
}

function project(node, earlier) {
  fields(node, ["op", "cells", "base", "digits", "of"], ["vectors", "weights"]);
  const [cells, base, child] = [big(node.cells), BigInt(whole(node.base, 2, 2 ** 31 - 1)), earlier(node.of)];
  const reach = base ** BigInt(whole(node.digits, 1, 64));
  require(cells > 0n && cells <= reach && cells <= UNIT, "at most base^digits and 2^62 cells");
  require(child.cells === base, "the child has as many cells as the base");
  const listed = node.vectors ?? node.weights;
  const vectors = listed == null ? null : list(node.vectors, big);
  const sums = listed == null ? null : cumulative(node.weights, vectors.length);
  require(vectors === null || vectors.every((vector) => vector < reach), "vectors below base^digits");
  const hashed = (vector, cell) => {
    let total = 0n;
    for (; vector && cell; vector /= base, cell /= base) total += (vector % base) * (cell % base);
    return total % base;
  };
  const step = (cell, choices) => {
    const index = sums ? choices.place(sums) : 1n + choices.below(reach - 1n);
    return [BigInt(index) * child.outcomes, hashed(sums ? vectors[index] : index, cell), child];
  };
  const outcomes = (vectors ? BigInt(vectors.length) : reach) * child.outcomes;
  return { cells, outcomes, payload: child.payload, step };
}

// --- laws: an outcome, and what it spends -------------------------------------------------------

const eitherWay = (a, b) => ({ ratio: a >= b ? [a, b] : [b, a] });

function placeOfBit(bytes, rank, one) {
  let index = 0;
  const held = (byte) => (one ? ONES[byte] : 8 - ONES[byte]);
  for (; rank >= held(bytes[index]); index += 1) rank -= held(bytes[index]);
  let place = 8 * index;
  for (; ; place += 1) if (bitAt(bytes, place) === Number(one) && rank-- === 0) return place;
}

function withParity(column, rank, odd) {
  const lowest = column & -column;
  const spread = (rank / lowest) * 2n * lowest + (rank % lowest);
  const shared = (spread & column).toString(2).replaceAll("0", "").length;
  return (shared + odd) % 2 ? spread + lowest : spread;
}

// Owners give { cells, outcomes, own, at(cell, inside, rank) }, all in BigInt.
const OWNERS = {
  self(owner) {
    fields(owner, ["by", "cells"]);
    const cells = BigInt(count(owner.cells, 2));
    const at = (cell, inside, rank) => (inside ? cell : rank + (rank >= cell ? 1n : 0n));
    return { cells, outcomes: cells, own: 1n, at };
  },
  parity(owner) {
    fields(owner, ["by", "cells", "width", "blocks"]);
    const [cells, width, blocks] = [owner.cells, owner.width, owner.blocks].map((n) => BigInt(count(n)));
    require(width >= 2n && !(width & (width - 1n)), "a width that is a power of two");
    require(cells <= blocks * (width - 1n), "a column for every cell");
    const [own, outcomes] = [width / 2n, width * blocks];
    const at = (cell, inside, rank) => {
      const first = (cell / (width - 1n)) * width;
      const column = (cell % (width - 1n)) + 1n;
      if (inside) return first + withParity(column, rank, 0);
      if (rank < first) return rank;
      return rank < first + own ? first + withParity(column, rank - first, 1) : rank + own;
    };
    return { cells, outcomes, own, at };
  },
  translate(owner) {
    fields(owner, ["by", "sizes", "pattern"]);
    const sizes = list(owner.sizes, count);
    const cells = product(sizes);
    const pattern = bitsOf(bytesOf(owner.pattern), Number(cells));
    const at = (cell, inside, rank) => {
      let shift = BigInt(placeOfBit(pattern, Number(rank), inside));
      let [result, stride] = [0n, 1n];
      for (const n of sizes.map(BigInt).reverse()) {
        result += (((cell - shift) % n + n) % n) * stride;
        [cell, shift, stride] = [cell / n, shift / n, stride * n];
      }
      return result;
    };
    return { cells, outcomes: cells, own: BigInt(bitCount(pattern)), at };
  },
  rows(owner) {
    fields(owner, ["by", "cells", "outcomes", "rows"]);
    const [cells, outcomes, bytes] = [count(owner.cells), count(owner.outcomes), bytesOf(owner.rows)];
    const length = Math.ceil(outcomes / 8);
    require(bytes.length === cells * length, "a row for every cell");
    const row = (cell) => bytes.subarray(cell * length, (cell + 1) * length);
    const own = bitCount(row(0));
    for (let cell = 0; cell < cells; cell += 1) {
      require(bitCount(bitsOf(row(cell), outcomes)) === own, "as many outcomes for every cell");
    }
    const at = (cell, inside, rank) => BigInt(placeOfBit(row(Number(cell)), Number(rank), inside));
    return { cells: BigInt(cells), outcomes: BigInt(outcomes), own: BigInt(own), at };
  },
};

function favour(node) {
  fields(node, ["op", "threshold", "owner"]);
  const limit = threshold(node.threshold);
  require(Object.hasOwn(OWNERS, node.owner?.by), "an owner by self, parity, translate or rows");
  const { cells, outcomes, own, at } = OWNERS[node.owner.by](node.owner);
  require(own > 0n && own < outcomes, "own and other outcomes");
  const outcome = (cell, choices) => {
    const inside = choices.chance(limit);
    return [at(cell, inside, choices.below(inside ? own : outcomes - own)), []];
  };
  const loss = () => eitherWay(limit * (outcomes - own), (WORD - limit) * own);
  return { cells, outcomes, payload: 0, outcome, loss };
}

function weigh(node) {
  fields(node, ["op", "cells", "rows"]);
  const cells = count(node.cells);
  const rows = list(node.rows, (row) => {
    if (Array.isArray(row)) {
      const values = list(row, big);
      require(values.length === cells, "an entry for every cell");
      return { at: (cell) => values[cell] };
    }
    fields(row, ["low", "high", "bits"]);
    const [low, high, bits] = [big(row.low), big(row.high), bitsOf(bytesOf(row.bits), cells)];
    return { at: (cell) => (bitAt(bits, cell) ? high : low) };
  });
  const sums = new Array(cells).fill(0n);
  let ratio = [1n, 1n];
  for (const row of rows) {
    let [least, most] = [row.at(0), row.at(0)];
    for (let cell = 0; cell < cells; cell += 1) {
      const entry = row.at(cell);
      if (entry < least) least = entry;
      if (entry > most) most = entry;
      sums[cell] += entry;
    }
    require(least > 0n, "positive entries");
    if (most * ratio[1] > ratio[0] * least) ratio = [most, least];
  }
  require(sums.every((sum) => sum === UNIT), "columns that sum to 2^62");
  const outcome = (cell, choices) => {
    let [left, index] = [choices.number(8) % UNIT, -1];
    while (left >= 0n) left -= rows[(index += 1)].at(Number(cell));
    return [BigInt(index), []];
  };
  const loss = () => ({ ratio });
  return { cells: BigInt(cells), outcomes: BigInt(rows.length), payload: 0, outcome, loss };
}

function packed(cells, length) {
  const bytes = new Uint8Array(Math.ceil(length / 8));
  for (const cell of cells) bytes[cell >> 3] |= 128 >> (cell & 7);
  return bytes;
}

function subset(node) {
  fields(node, ["op", "cells", "size", "threshold"]);
  const [cells, limit] = [whole(node.cells, 2, 2 ** 28), threshold(node.threshold)];
  const size = whole(node.size, 1, cells - 1);
  const outcome = (value, choices) => {
    const own = Number(value);
    const inside = choices.chance(limit);
    const chosen = new Set();
    for (let last = cells - 1 - size + inside; last < cells - 1; last += 1) {
      const drawn = Number(choices.below(BigInt(last + 1)));
      chosen.add(chosen.has(drawn) ? last : drawn);
    }
    const held = Array.from(chosen, (cell) => cell + (cell >= own));
    return [0n, packed(inside ? [...held, own] : held, cells)];
  };
  const loss = () => eitherWay(limit * BigInt(cells - size), (WORD - limit) * BigInt(size));
  return { cells: BigInt(cells), outcomes: 1n, payload: Math.ceil(cells / 8), outcome, loss };
}

function flip(node) {
  fields(node, ["op", "cells", "own", "other"]);
  const [cells, own, other] = [whole(node.cells, 2, 2 ** 28), threshold(node.own), threshold(node.other)];
  const outcome = (value, choices) => {
    const held = [];
    for (let cell = 0; cell < cells; cell += 1) {
      if (choices.chance(cell === Number(value) ? own : other)) held.push(cell);
    }
    return [0n, packed(held, cells)];
  };
  const loss = () => eitherWay(own * (WORD - other), other * (WORD - own));
  return { cells: BigInt(cells), outcomes: 1n, payload: Math.ceil(cells / 8), outcome, loss };
}

function divisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

function fraction(pair) {
  const [p, q] = list(pair, big);
  require(pair.length === 2 && p > 0n && q > 0n, "a positive fraction");
  require(divisor(p, q) === 1n, "a fraction in lowest terms");
  return [p, q];
}

function grid(node) {
  fields(node, ["op", "columns", "law", "scale"], ["epsilon"]);
  const columns = list(node.columns, (column) => list(column, (c) => whole(c, 1 - EXACT, EXACT - 1)));
  const length = columns[0].length;
  require(columns.every((column) => column.length === length), "columns of one length");
  const largest = columns.flat().reduce((most, entry) => Math.max(most, Math.abs(entry)), 0);
  require(2n * BigInt(length) * BigInt(largest) < BigInt(EXACT), "entries below 2^52 over their number");
  const [p, q] = fraction(node.scale);
  require(p <= q << 40n && q <= p << 40n, "a scale between 2^-40 and 2^40");
  const gaussian = node.law === "rounded-gaussian";
  require(gaussian || node.law === "discrete-laplace", "a known law");
  require(gaussian === (node.epsilon != null), "an epsilon for a Gaussian, and only there");
  if (gaussian) fraction(node.epsilon);
  const refuse = () => {
    throw new RangeError("Gaussian noise is not drawn or verified here; use the library");
  };
  const outcome = (cell, choices) => {
    const bytes = new DataView(new ArrayBuffer(8 * length));
    columns[Number(cell)].forEach((mean, place) => {
      const noisy = BigInt(mean) + laplace(p, q, choices);
      const [least, most] = [-(1n << 63n), (1n << 63n) - 1n];
      bytes.setBigInt64(8 * place, noisy < least ? least : noisy > most ? most : noisy, true);
    });
    return [0n, new Uint8Array(bytes.buffer)];
  };
  const loss = () => {
    const [distance, exact] = farthest(columns);
    return { exponent: [BigInt(distance) * q, p], exact };
  };
  const shape = { cells: BigInt(columns.length), outcomes: 1n, payload: 8 * length };
  return { ...shape, outcome: gaussian ? refuse : outcome, loss: gaussian ? refuse : loss };
}

function laplace(p, q, choices) {
  const exponential = (a, b) => {
    let k = 1n;
    while (choices.below(k * b) < a) k += 1n;
    return k % 2n === 1n;
  };
  for (;;) {
    const part = choices.below(p);
    if (!exponential(part, p)) continue;
    let times = 0n;
    while (exponential(1n, 1n)) times += 1n;
    const size = (part + p * times) / q;
    const negative = choices.below(2n) === 1n;
    if (size > 0n || !negative) return negative ? -size : size;
  }
}

function farthest(columns) {
  const places = columns[0].map((_, place) => place);
  if (columns.length ** 2 * places.length > PAIRS) {
    const bounds = (pick) => places.map((i) => columns.reduce((best, c) => pick(best, c[i]), columns[0][i]));
    const [low, high] = [bounds(Math.min), bounds(Math.max)];
    return [places.reduce((total, i) => total + high[i] - low[i], 0), false];
  }
  let most = 0;
  for (let u = 0; u < columns.length; u += 1) {
    for (let v = 0; v < u; v += 1) {
      let total = 0;
      for (const i of places) total += Math.abs(columns[u][i] - columns[v][i]);
      if (total > most) most = total;
    }
  }
  return [most, true];
}

// --- ε: logarithms in whole numbers, rounded up to the next double ------------------------------

const PRECISION = 320n;
const ONE = 1n << PRECISION;
const bitLength = (value) => BigInt(value.toString(2).length);

function doubleAbove(fixed) {
  const shift = bitLength(fixed) - 53n;
  if (shift <= 0n) return Number(fixed) * 2 ** -Number(PRECISION);
  const top = (fixed + (1n << shift) - 1n) >> shift;
  return Number(top) * 2 ** Number(shift - PRECISION);
}

const quotientAbove = ([a, b]) => doubleAbove(((a << PRECISION) + b - 1n) / b);

function logarithm(a, b) {
  // Twice the area tangent of (a − b)/(a + b), for a/b between 1 and 2.
  const z = ((a - b) << PRECISION) / (a + b);
  const square = (z * z) >> PRECISION;
  let total = 0n;
  for (let [power, k] = [z, 1n]; power > 0n; power = (power * square) >> PRECISION, k += 2n) total += power / k;
  return 2n * total;
}

function logAbove([a, b]) {
  if (a === b) return 0;
  let twos = bitLength(a) - bitLength(b);
  if (a < b << twos) twos -= 1n;
  const fixed = twos * logarithm(2n, 1n) + logarithm(a, b << twos);
  return doubleAbove(fixed + (1n << 20n)); // more than all that was rounded down
}

// --- the specification --------------------------------------------------------------------------

const OPERATIONS = { draw, view, project, favour, weigh, subset, flip, grid };

export class Randomizer {
  /** Reads a specification (JSON text, or what JSON.parse made of it), or throws a RangeError. */
  constructor(specification) {
    const isText = typeof specification === "string";
    require(!isText || specification.length <= LARGEST_TEXT, `at most ${LARGEST_TEXT} bytes`);
    const document = isText ? JSON.parse(specification) : specification;
    fields(document, ["format", "version", "meaning", "report_bytes", "nodes"]);
    require(document.format === "noisewright-randomizer" && document.version === 1, "another format");
    const plain = typeof document.meaning === "string" && /^[ !#-[\]-~]{0,200}$/.test(document.meaning);
    require(plain, "a meaning in plain characters");
    this.meaning = document.meaning;
    this.nodes = [];
    const used = new Set();
    const earlier = (place) => {
      used.add(whole(place, 0, this.nodes.length - 1));
      return this.nodes[place];
    };
    require(Array.isArray(document.nodes) && document.nodes.length > 0, "a list of nodes");
    for (const node of document.nodes) {
      require(Object.hasOwn(OPERATIONS, node?.op), "a known operation");
      const made = OPERATIONS[node.op](node, earlier);
      require(made.outcomes < BigInt(EXACT), "fewer than 2^53 outcomes");
      this.nodes.push(made);
    }
    require(used.size === this.nodes.length - 1, "nodes that are used");
    this.root = this.nodes.at(-1);
    this.cells = this.root.cells;
    this.reportBytes = whole(document.report_bytes, 1, LARGEST_TEXT);
    this.numberBytes = this.reportBytes - this.root.payload;
    const fits = this.numberBytes >= 0 && this.root.outcomes <= 256n ** BigInt(this.numberBytes);
    require(fits && this.numberBytes <= 8, "a report that holds its number");
  }

  /** What every report spends: { epsilon, delta, ratio: [BigInt, BigInt] or null, exact }. */
  verify() {
    const losses = this.nodes.filter((node) => node.loss).map((node) => node.loss());
    const most = (best, each) => (each[0] * best[1] > best[0] * each[1] ? each : best);
    const ratio = losses.map((loss) => loss.ratio ?? [1n, 1n]).reduce(most);
    const exponent = losses.map((loss) => loss.exponent ?? [0n, 1n]).reduce(most);
    return {
      epsilon: Math.max(logAbove(ratio), quotientAbove(exponent)),
      delta: 0,
      ratio: losses.some((loss) => loss.exponent) ? null : ratio.map((n) => n / divisor(...ratio)),
      exact: losses.every((loss) => loss.exact !== false),
    };
  }

  /** One report of a person in cell `value`, without the header that names its plan. */
  randomize(value, source = systemBytes) {
    let [number, cell, node] = [0n, BigInt(value), this.root];
    if (cell < 0n || cell >= this.cells) throw new RangeError("value is not the number of a cell");
    const choices = new Choices(source);
    while (node.step) {
      const [added, seen, next] = node.step(cell, choices);
      [number, cell, node] = [number + added, seen, next];
    }
    const [own, payload] = node.outcome(cell, choices);
    const report = new Uint8Array(this.reportBytes);
    number += own;
    for (let i = 0; i < this.numberBytes; i += 1, number >>= 8n) report[i] = Number(number & 255n);
    report.set(payload, this.numberBytes);
    return report;
  }
}

/** A client from what `noisewright client PLAN --specification` wrote: reports ready to be sent. */
export class Client {
  constructor(exported, largestEpsilon = Infinity) {
    const document = typeof exported === "string" ? JSON.parse(exported) : exported;
    require(document?.format === "noisewright-client", "another format");
    this.randomizer = new Randomizer(document.specification);
    this.promise = this.randomizer.verify();
    require(this.promise.epsilon <= document.epsilon, "the ε stated is less than what is spent");
    require(this.promise.epsilon <= largestEpsilon, "more is spent than you allow");
    require(/^(?:[0-9a-f]{2})*$/.test(document.header), "a header in hexadecimal");
    this.header = (document.header.match(/../g) ?? []).map((pair) => parseInt(pair, 16));
  }

  report(value, source = systemBytes) {
    return Uint8Array.from([...this.header, ...this.randomizer.randomize(value, source)]);
  }
}

// --- a campaign: fetched whole, verified, answered once -----------------------------------------

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((name) => `"${name}":${canonical(value[name])}`)}}`;
}

async function digestOf(value) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical(value)));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const APART = { credentials: "omit", referrerPolicy: "no-referrer" };
const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** The place of an answer among a question's cells. */
export function codeOf({ name, kind, cuts, size, outside }, answer) {
  if (kind === "choice") return whole(Number(answer), 0, size - 1);
  const number = kind === "date" ? Date.parse(`${answer}T00:00:00Z`) / 864e5 : Number(answer);
  const last = cuts.length - 2;
  if (answer === "") {
    require(size > last + 1, `${name} has no answer`);
    return last + 1;
  }
  const [low, high] = [cuts[0] ?? -Infinity, cuts[last + 1] ?? Infinity];
  require(!Number.isNaN(number), `${name} is no ${kind}`);
  if (number < low || number > high) {
    require(outside !== "error", `${name} lies outside`);
    return outside === "other" ? last + 1 : number < low ? 0 : last;
  }
  let code = 0;
  while (code < last && cuts[code + 1] <= number) code += 1;
  return code;
}

export class Campaign {
  /** `epsilon`: the most that you allow; `digest`: the specification that you accept. */
  static async load(address, { epsilon, digest, storage = globalThis.localStorage } = {}) {
    const answer = await fetch(address, APART);
    if (!answer.ok) throw new Error(`the campaign cannot be fetched (${answer.status})`);
    const document = await answer.json();
    require(document?.format === "noisewright-campaign" && document.version === 1, "another format");
    const own = await digestOf(document.client.specification);
    require(own === document.client.digest && own === (digest ?? own), "another digest");
    require(document.client.header === `d1${own.slice(0, 16)}`, "reports name another plan");
    return new Campaign(address, document, new Client(document.client, epsilon), storage);
  }

  constructor(address, document, client, storage) {
    Object.assign(this, { address, document, client, storage, drawn: {} });
    this.epsilon = client.promise.epsilon;
    const cells = document.questions.reduce((total, { size }) => total * BigInt(size), 1n);
    require(cells === client.randomizer.cells, "questions of other cells");
  }

  get words() {
    const odds = Math.exp(this.epsilon);
    const up = (x) => Math.ceil(x * 10) / 10;
    return (
      `Each report is at most ${up(odds)} times likelier than under any other answer, ` +
      `and a guess between two right at most ${up((100 * odds) / (odds + 1))} % of the time ` +
      `(ε\u00a0=\u00a0${Number(this.epsilon.toPrecision(4))}, recomputed here).`
    );
  }

  /** The cell of these answers. */
  cell(answers) {
    return this.document.questions.reduce(
      (cell, question, i) => cell * BigInt(question.size) + BigInt(codeOf(question, answers[i])),
      0n,
    );
  }

  // What this device remembers.
  get memory() {
    const text = this.storage?.getItem(`noisewright:${this.document.family}`);
    return text ? JSON.parse(text) : { spent: 0, rounds: {}, kept: {} };
  }

  set memory(state) {
    this.storage?.setItem(`noisewright:${this.document.family}`, JSON.stringify(state));
  }

  get round() {
    const { mode, every } = this.document.repetition;
    return mode === "once" ? "" : new Date().toISOString().slice(0, every === "day" ? 10 : 7);
  }

  get place() {
    return `${this.document.name}/${this.round}`;
  }

  /** "no", "waiting" (drawn, perhaps not received) or "yes". */
  get answered() {
    const entry = this.memory.rounds[this.place];
    return entry ? (entry.report ? "waiting" : "yes") : "no";
  }

  /** The report kept for a cell; beyond `most` cells, the last one drawn. */
  kept(cell) {
    const { mode, most } = this.document.repetition;
    const all = this.memory.kept[this.client.header] ?? [];
    if (mode !== "memoised") return undefined;
    return (all.find((each) => each.cell === cell) ?? (all.length < most ? undefined : all.at(-1)))?.report;
  }

  /** Whether one more report may be drawn. */
  get left() {
    const { repetition, budget, name } = this.document;
    const { spent, rounds } = this.memory;
    const sent = Object.keys(rounds).filter((place) => place.startsWith(`${name}/`)).length;
    const within = budget === null || spent + this.epsilon <= budget * (1 + 1e-12);
    return within && (repetition.mode !== "fresh" || sent < repetition.most);
  }

  /** What is sent for these answers: drawn once for each cell. */
  prepare(answers) {
    const cell = String(this.cell(answers));
    return this.kept(cell) ?? (this.drawn[cell] ??= base64(this.client.report(cell)));
  }

  /** Another report that could have been drawn; never sent. */
  example(answers) {
    return base64(this.client.report(this.cell(answers)));
  }

  /** Remembers a report, sends it until it is received, forgets it. */
  async send(answers, token, attempts = 5) {
    const { place } = this;
    if (this.answered === "no") this.remember(String(this.cell(answers)), this.prepare(answers));
    const body = this.memory.rounds[place];
    if (!body.report) return "repeated";
    const status = await this.post(token ? { ...body, token } : body, attempts);
    const state = this.memory;
    state.rounds[place] = {};
    this.memory = state;
    return status;
  }

  remember(cell, report) {
    const state = this.memory;
    if (!this.kept(cell)) {
      require(this.left, "what you may spend is spent");
      state.spent += this.epsilon;
      if (this.document.repetition.mode === "memoised") {
        (state.kept[this.client.header] ??= []).push({ cell, report });
      }
    }
    const nonce = base64(systemBytes(16));
    state.rounds[this.place] = this.round ? { nonce, report, round: this.round } : { nonce, report };
    this.memory = state;
  }

  async post(body, attempts) {
    for (let attempt = 1; ; attempt += 1) {
      const headers = { "content-type": "application/json" };
      const request = { ...APART, method: "POST", body: JSON.stringify(body), headers };
      const answer = await fetch(`${this.address}/reports`, request).catch(() => null);
      const told = await answer?.json().catch(() => null);
      if (answer?.ok) return told.status;
      if (attempt === attempts || (answer && answer.status !== 429 && answer.status < 500)) {
        throw new Error(told?.detail ?? "the collector cannot be reached");
      }
      const seconds = Number(answer?.headers.get("retry-after")) || 2 ** attempt / 2;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    }
  }
}
