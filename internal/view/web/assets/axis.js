// Axes of charts: positions and labels of values, with the units and scales of package figure.

const ladders = {
  bytes: [[2 ** 40, 'Ti'], [2 ** 30, 'Gi'], [2 ** 20, 'Mi'], [2 ** 10, 'Ki'], [0, '']],
  us: [[1e6, ' s'], [1e3, ' ms'], [1, ' µs'], [1e-3, ' ns']],
  percent: [[0, '%']],
};
const plain = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k'], [0, '']];

// format writes a value in its unit with up to this many significant digits.
export function format(unit, v, digits = 4) {
  if (v === 0) return unit === 'percent' ? '0%' : '0';
  const ladder = ladders[unit] || plain;
  const [from, suffix] = ladder.find(([size]) => Math.abs(v) * (1 + 1e-9) >= size) || ladder[ladder.length - 1];
  const size = suffix === 'k' ? 1e3 : from || 1;
  return number(v / size, digits) + suffix;
}

function number(v, digits) {
  const a = Math.abs(v);
  if (a < 1e-3 || a >= 1e6) return v.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return String(Number(v.toPrecision(digits)));
}

// label returns the label of an axis, with the unit if the ticks do not show it.
export function label(axis) {
  const text = axis.label || '';
  if ((axis.unit !== 'GB/s' && axis.unit !== 'TFLOP/s') || text.includes(axis.unit)) return text;
  return `${text} (${axis.unit})`.trim();
}

// Axis maps the values in [lo, hi] to positions in [from, to].
export class Axis {
  constructor(desc, lo, hi, log, from, to) {
    Object.assign(this, { desc, log, from, to, lo, hi });
    this.f = log ? Math.log : (v) => v;
    this.span = this.f(hi) - this.f(lo) || 1;
  }
  at(v) { return this.from + (this.f(v) - this.f(this.lo)) / this.span * (this.to - this.from); }
  back(px) {
    const v = this.f(this.lo) + (px - this.from) / (this.to - this.from) * this.span;
    return this.log ? Math.exp(v) : v;
  }
  shows(v) { return Number.isFinite(v) && (!this.log || v > 0); }
  holds(v) {
    if (!this.shows(v)) return false;
    const slack = Math.abs(this.span) * 1e-9;
    return this.f(v) >= this.f(this.lo) - slack && this.f(v) <= this.f(this.hi) + slack;
  }
  // ticks returns about n pairs of value and label.
  ticks(n) {
    if (this.desc.categories) return categoryTicks(this.desc.categories, this.lo, this.hi);
    const base = this.desc.scale === 'log2' || this.desc.unit === 'bytes' ? 2 : 10;
    const values = this.log ? logTicks(this.lo, this.hi, base, n) : linearTicks(this.lo, this.hi, n, this.desc.unit === 'bytes');
    return values.map((v) => [v, format(this.desc.unit, v)]);
  }
}

function categoryTicks(names, lo, hi) {
  return names.map((name, i) => [i, name]).filter(([i]) => i >= lo && i <= hi);
}

// wrapLabel breaks a label into lines of at most this many characters: at spaces, and long words after a hyphen, an
// underscore or a slash. Words are not broken where there is room for a few letters only.
export function wrapLabel(text, most) {
  const words = text.split(' ').flatMap((w) => (w.length > most && most >= 6 ? w.split(/(?<=[-_/])/) : [w]).map((part, i) => [part, i > 0]));
  const lines = [];
  for (const [word, glued] of words) {
    const last = lines[lines.length - 1], joined = glued ? last + word : `${last} ${word}`;
    if (lines.length && joined.length <= most) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  return lines;
}

function linearTicks(lo, hi, n, binary) {
  const rough = (hi - lo) / Math.max(n, 1);
  if (!(rough > 0)) return [lo];
  let step;
  if (binary && rough >= 1) step = 2 ** Math.ceil(Math.log2(rough));
  else {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].map((m) => m * power).find((v) => v >= rough * 0.999);
  }
  const out = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9 && out.length < 100; k++) out.push(k * step);
  return out;
}

function logTicks(lo, hi, base, n) {
  const first = Math.ceil(Math.log(lo) / Math.log(base) - 1e-9), last = Math.floor(Math.log(hi) / Math.log(base) + 1e-9);
  const count = last - first + 1;
  if (base === 10 && count < 4) {
    const fine = [];
    for (let e = first - 1; e <= last; e++) for (const m of [1, 2, 5]) fine.push(m * 10 ** e);
    const inside = fine.filter((v) => v >= lo * (1 - 1e-9) && v <= hi * (1 + 1e-9));
    if (inside.length >= 3) return inside;
  }
  if (count < 2) return linearTicks(lo, hi, Math.min(n, 4), base === 2);
  const stride = Math.ceil(count / Math.max(n, 2));
  const out = [];
  for (let e = first; e <= last; e += stride) out.push(base ** e);
  return out;
}
