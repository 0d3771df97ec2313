// Sparklines: the results of the latest runs of a bench, small enough for a line of a table.
import { s } from './dom.js';
import { plural } from './words.js';

const width = 120, height = 28, pad = 4, most = 40;

// sparkline draws the results of runs, the latest first. Runs with other points than the latest are left out,
// because their results cannot be compared.
export function sparkline(runs) {
  const last = runs.find((r) => r.number)?.number;
  const same = runs.filter((r) => r.number && r.number.set === last.set && r.number.metric === last.metric).slice(0, most).reverse();
  if (same.length < 2) return '';
  const values = same.map((r) => r.number.value), lo = Math.min(...values), hi = Math.max(...values);
  // A band of 4 % at least, so that noise does not look like a change.
  const mid = (lo + hi) / 2, half = Math.max((hi - lo) / 2, mid * 0.02);
  const x = (i) => pad + i / (same.length - 1) * (width - 2 * pad), y = (v) => height / 2 - (v - mid) / half * (height / 2 - pad);
  const at = (i) => `${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`;
  const least = same[values.indexOf(lo)].number.text, largest = same[values.indexOf(hi)].number.text;
  const text = `${last.metric} over ${plural(same.length, 'run')}: from ${least} to ${largest}, latest ${last.text}`;
  return s('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': text },
    s('title', { text }), s('path', { class: 'spark-line', d: 'M' + same.map((_, i) => at(i)).join('L') }),
    same.map((r, i) => (i === same.length - 1 || r.disturbed ? s('circle', { class: r.disturbed ? 'spark-doubt' : 'spark-last', cx: x(i).toFixed(1), cy: y(values[i]).toFixed(1), r: 2.6 }) : '')));
}
