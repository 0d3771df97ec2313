// Draws the panels of package figure as SVG. The exported file is the picture on the screen.
// The state (zoom, scales, hidden series) is kept in the page's address.
import { h, s, say, save } from './dom.js';
import { Axis, format, label, wrapLabel } from './axis.js';

const light = { ink: '#1a1a1a', soft: '#555555', grid: '#e3e3e3', paper: '#ffffff', colors:
  ['#006BA6', '#CC8500', '#882255', '#008F68', '#332288', '#B04900', '#459CCD', '#4D4D4D', '#B86091', '#661100'] };
const dark = { ink: '#e6e9ed', soft: '#a3adb8', grid: '#343c46', paper: '#14181d', colors:
  ['#63B4EE', '#FFD878', '#E06E9A', '#40DDB0', '#7870D4', '#FF8A3C', '#B4E4FC', '#939393', '#F4B0D4', '#C4603F'] };
const plainColors = 5;
const darkMode = matchMedia('(prefers-color-scheme: dark)');
const theme = () => (darkMode.matches ? dark : light);

const textSize = 12, charWidth = 6.6, maxMarkers = 400, maxLabel = 32;

// Chart is one panel with its legend and buttons. It calls changed with every new state.
export class Chart {
  constructor(panel, name, title, alt, state, changed) {
    Object.assign(this, { panel, name, title: panel.title || title || name, alt, state, changed });
    this.canBeLog = { x: this.positive('x'), y: this.positive('y') };
    this.host = h('div', { class: 'chart' });
    this.tip = h('div', { class: 'tip', hidden: true });
    this.legend = h('div', { class: 'legend', role: 'group', 'aria-label': 'Series' });
    this.tools = h('div', { class: 'tools' });
    this.element = h('div', {}, panel.title ? h('h3', { text: panel.title }) : null, this.host, this.legend, this.tools,
      panel.note ? h('p', { class: 'soft small', text: panel.note }) : null);
    this.draw();
    new ResizeObserver(() => { if (Math.abs(this.host.clientWidth - this.width) > 2) this.draw(); }).observe(this.host);
    darkMode.addEventListener('change', () => this.draw());
  }

  positive(axis) {
    const desc = this.panel[axis] || {};
    if (desc.categories) return false;
    return this.points().some((p) => p[axis] > 0);
  }
  points() { return (this.panel.series || []).flatMap((one) => one.points || []); }
  isLog(axis) {
    const scale = this.state[axis + 's'] || ((this.panel[axis]?.scale || '').startsWith('log') ? 'log' : 'lin');
    return scale === 'log' && this.canBeLog[axis];
  }
  shown() { return (this.panel.series || []).map((one, i) => ({ ...one, i })).filter((one) => !(this.state.off || []).includes(one.i)); }
  set(change) {
    this.state = { ...this.state, ...change };
    this.draw();
    this.changed(this.state);
  }

  // range returns the range of an axis: the zoom, the fixed ends of the figure, or the data.
  range(axis) {
    const desc = this.panel[axis] || {}, log = this.isLog(axis);
    if (this.state[axis] && !(log && this.state[axis][0] <= 0)) return this.state[axis];
    if (desc.categories) return [-0.5, desc.categories.length - 0.5];
    let lo = Infinity, hi = -Infinity;
    const take = (v) => { if (Number.isFinite(v) && (!log || v > 0)) { lo = Math.min(lo, v); hi = Math.max(hi, v); } };
    const stacks = this.stacks();
    for (const one of this.shown()) for (const p of one.points || []) {
      if (p.failed && axis === 'y') continue;
      take(p[axis]);
      if (axis === 'y' && p.low < p.high) { take(p.low); take(p.high); }
    }
    if (axis === 'y') for (const top of stacks.values()) take(top.sum);
    for (const line of this.panel.lines || []) {
      take(line[axis]);
      for (const p of line.points || []) take(p[axis]);
    }
    const bars = this.shown().some((one) => (one.kind || '').includes('bars'));
    if (lo > hi) return log ? [1, 10] : [0, 1];
    if (log) {
      const pad = hi / lo < 1.5 ? 2 : Math.max((hi / lo) ** 0.04, 1.05);
      [lo, hi] = [lo / pad, hi * pad];
    } else {
      if (axis === 'y' && lo > 0 && (bars || lo < hi * 0.7)) lo = 0;
      const pad = (hi - lo || Math.abs(hi) || 1) * 0.05;
      [lo, hi] = [lo === 0 ? 0 : lo - pad, hi + pad];
    }
    if (Number.isFinite(desc.min) && (!log || desc.min > 0)) lo = Math.min(desc.min, hi);
    if (Number.isFinite(desc.max) && desc.max > lo) hi = desc.max;
    return [lo, hi];
  }

  stacks() {
    const tops = new Map();
    for (const one of this.shown()) if (one.kind === 'stacked-bars') {
      for (const p of one.points || []) if (Number.isFinite(p.y)) {
        const top = tops.get(p.x) || { sum: 0 };
        top.sum += p.y;
        tops.set(p.x, top);
      }
    }
    return tops;
  }

  draw() {
    const focused = this.svg && document.activeElement === this.svg;
    this.width = Math.max(this.host.clientWidth || 640, 280);
    const { svg, marks, x, y } = this.render(theme(), this.width, Math.min(Math.max(this.width * 0.52, 240), 420), false);
    Object.assign(this, { svg, marks, x, y });
    svg.setAttribute('tabindex', '0');
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', this.alt + '. Arrow keys read the points, plus and minus zoom, 0 shows all.');
    this.host.replaceChildren(svg, this.tip);
    this.listen(svg);
    this.drawLegend();
    this.drawTools();
    if (focused) svg.focus();
    if (this.current) this.current = null;
    this.tip.hidden = true;
  }

  // render draws the panel. whole adds the parts that the page has as HTML, for exports.
  render(t, W, H, whole) {
    const shown = this.shown();
    const [ylo, yhi] = this.range('y'), [xlo, xhi] = this.range('x');
    const ydesc = this.panel.y || {}, xdesc = this.panel.x || {};
    const yticks = new Axis(ydesc, ylo, yhi, this.isLog('y'), 1, 0).ticks(H / 55);
    const left = Math.min(14 + 20 + Math.max(...yticks.map(([, text]) => text.length), 2) * charWidth, W / 3);
    const head = whole ? 30 : 8, legendRows = whole ? shown.length : 0;
    const top = head, right = W - 14;
    const x = new Axis(xdesc, xlo, xhi, this.isLog('x'), left, right), bottom = H - 32 - 14 * this.tickRows(x);
    const y = new Axis(ydesc, ylo, yhi, this.isLog('y'), bottom, top);
    const height = H + legendRows * 18 + (whole && this.panel.note ? 20 : 0);
    const svg = s('svg', { xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${W} ${height}`, width: W, height,
      'font-family': 'Liberation Sans, Arial, sans-serif', 'font-size': textSize });
    svg.append(s('rect', { width: W, height, fill: t.paper }));
    if (whole) svg.append(s('text', { x: left, y: 18, fill: t.ink, 'font-weight': 'bold', text: this.title }));
    svg.append(this.grid(t, x, y, yticks, W));
    const clip = `clip${Math.random().toString(36).slice(2)}`;
    svg.append(s('clipPath', { id: clip }, s('rect', { x: left, y: top, width: right - left, height: bottom - top })));
    const plot = s('g', { 'clip-path': `url(#${clip})` });
    svg.append(plot);
    const marks = [];
    this.drawBars(plot, t, x, y, shown, marks);
    for (const one of shown) if (!(one.kind || '').includes('bars')) this.drawSeries(plot, t, x, y, one, marks);
    this.drawLines(plot, t, x, y);
    this.cursor = s('g', { 'pointer-events': 'none' });
    svg.append(this.cursor);
    if (whole) this.caption(svg, t, shown, left, H);
    return { svg, marks, x, y };
  }

  grid(t, x, y, yticks, W) {
    const g = s('g', { fill: t.soft });
    let end = -Infinity;
    for (const [v, text] of x.ticks(Math.max((x.to - x.from) / 75, 2))) {
      const at = x.at(v), lines = this.tickLines(x, text), half = Math.max(...lines.map((l) => l.length)) * charWidth / 2;
      const center = Math.min(Math.max(at, half), W - half);
      if (center - half < end) continue; // labels that do not fit are left out, never cut
      end = center + half + 12;
      g.append(s('line', { x1: at, x2: at, y1: y.to, y2: y.from, stroke: t.grid }));
      g.append(s('text', { y: y.from + 16, 'text-anchor': 'middle' }, s('title', { text }), lines.map((text, i) => s('tspan', { x: center, dy: i ? 14 : 0, text }))));
    }
    for (const [v, text] of yticks) {
      g.append(s('line', { x1: x.from, x2: x.to, y1: y.at(v), y2: y.at(v), stroke: t.grid }));
      g.append(s('text', { x: x.from - 6, y: y.at(v) + 4, 'text-anchor': 'end', text }));
    }
    g.append(s('rect', { x: x.from, y: y.to, width: x.to - x.from, height: y.from - y.to, fill: 'none', stroke: t.soft, 'stroke-opacity': '.6' }));
    g.append(s('text', { x: (x.from + x.to) / 2, y: y.from + 22 + 14 * this.tickRows(x), 'text-anchor': 'middle', fill: t.ink, text: label(x.desc) }));
    const mid = (y.from + y.to) / 2;
    g.append(s('text', { x: 14, y: mid, 'text-anchor': 'middle', fill: t.ink, transform: `rotate(-90 14 ${mid})`, text: label(y.desc) }));
    return g;
  }

  // tickLines returns the label of a category in up to three lines, if its place is narrow.
  tickLines(x, text) {
    if (!x.desc.categories) return [text];
    const lines = wrapLabel(text, Math.floor((x.to - x.from) / x.desc.categories.length / charWidth) - 1);
    const short = (line) => (line.length > maxLabel ? line.slice(0, maxLabel - 1) + '…' : line);
    return (lines.length > 3 ? [...lines.slice(0, 2), lines.slice(2).join(' ')] : lines).map(short);
  }
  tickRows(x) { return Math.max(1, ...(x.desc.categories || []).map((text) => this.tickLines(x, text).length)); }

  // hatched reports whether the bars of a series need more than their color: only the first colors differ in lightness.
  hatched(one) { return ((one.color || one.i + 1) - 1) % theme().colors.length >= plainColors; }
  color(t, one) { return t.colors[((one.color || one.i + 1) - 1) % t.colors.length]; }

  drawSeries(g, t, x, y, one, marks) {
    const color = this.color(t, one), line = one.kind !== 'scatter';
    const inside = (one.points || []).filter((p) => x.shows(p.x));
    let path = '', pen = false;
    for (const p of inside) {
      if (p.failed || !y.shows(p.y)) { pen = false; continue; }
      path += `${pen ? 'L' : 'M'}${round(x.at(p.x))} ${round(y.at(p.y))}`;
      pen = true;
    }
    const group = s('g', { 'data-series': one.i });
    if (line) group.append(s('path', { d: path, fill: 'none', stroke: color, 'stroke-width': 2, 'stroke-linejoin': 'round', 'stroke-dasharray': one.dashed ? '6 4' : null }));
    const visible = inside.filter((p) => x.holds(p.x));
    const many = visible.length > maxMarkers;
    for (const p of visible) {
      const px = x.at(p.x);
      if (p.failed) {
        const py = y.from - 8;
        group.append(s('path', { d: `M${px - 4} ${py - 4}l8 8m0-8l-8 8`, stroke: color, 'stroke-width': 2 }));
        marks.push({ one, p, px, py });
        continue;
      }
      if (!y.holds(p.y)) continue;
      const py = y.at(p.y);
      if (p.low < p.high && y.shows(p.low) && !many) {
        group.append(s('path', { d: `M${px} ${y.at(p.low)}V${y.at(p.high)}M${px - 3} ${y.at(p.low)}h6M${px - 3} ${y.at(p.high)}h6`, stroke: color, fill: 'none' }));
      }
      if (!one.no_marker && (!many || !line || p.hollow)) group.append(marker(one.i, px, py, many && !p.hollow ? 1.5 : many ? 2.5 : 3.5, color, p.hollow || one.dashed ? t.paper : color));
      marks.push({ one, p, px, py });
    }
    g.append(group);
  }

  drawBars(g, t, x, y, shown, marks) {
    const groups = shown.filter((one) => one.kind === 'bars'), stacked = shown.filter((one) => one.kind === 'stacked-bars');
    if (!groups.length && !stacked.length) return;
    const slot = Math.abs(x.at(1) - x.at(0)) * 0.8, base = y.log ? y.lo : Math.max(y.lo, Math.min(0, y.hi));
    const lanes = groups.length + (stacked.length ? 1 : 0), wide = slot / lanes;
    const bar = (one, p, lane, from, to) => {
      const px = x.at(p.x) - slot / 2 + lane * wide, color = this.color(t, one);
      const a = y.at(Math.max(to, y.lo)), b = y.at(Math.max(from, y.lo));
      g.append(s('rect', { 'data-series': one.i, x: px + 1, width: Math.max(wide - 2, 1), y: Math.min(a, b), height: Math.max(Math.abs(b - a), 0.5), fill: color,
        'fill-opacity': p.hollow ? 0.35 : 1, stroke: color }));
      if (this.hatched(one)) g.append(s('path', { d: hatching(px + 1, Math.min(a, b), Math.max(wide - 2, 1), Math.abs(b - a)), stroke: t.paper, 'stroke-width': 1.4, 'pointer-events': 'none' }));
      if (p.low < p.high) {
        const mid = px + wide / 2;
        g.append(s('path', { d: `M${mid} ${y.at(p.low)}V${y.at(p.high)}`, stroke: t.ink }));
      }
      marks.push({ one, p, px: px + wide / 2, py: a });
    };
    groups.forEach((one, lane) => (one.points || []).forEach((p) => { if (y.shows(p.y) && !p.failed) bar(one, p, lane, base, p.y); }));
    const sums = new Map();
    for (const one of stacked) for (const p of one.points || []) {
      if (!Number.isFinite(p.y) || p.failed) continue;
      const from = sums.get(p.x) || 0;
      bar(one, p, groups.length, y.log && from === 0 ? y.lo : from, from + p.y);
      sums.set(p.x, from + p.y);
    }
  }

  drawLines(g, t, x, y) {
    const ink = this.ink(x, y);
    for (const line of this.panel.lines || []) {
      const pen = { stroke: t.soft, 'stroke-width': 1.5, 'stroke-dasharray': '2 3', fill: 'none' };
      let places = []; // for the label: x, y and anchor
      if (Number.isFinite(line.y) && y.holds(line.y)) {
        const at = y.at(line.y), mid = (x.from + x.to) / 2;
        places = [-5, 14].flatMap((dy) => [[x.to - 6, at + dy, 'end'], [mid, at + dy, 'middle'], [x.from + 6, at + dy, 'start']]);
        g.append(s('line', { x1: x.from, x2: x.to, y1: at, y2: at, ...pen }));
      } else if (Number.isFinite(line.x) && x.holds(line.x)) {
        const at = x.at(line.x);
        places = [y.to + 14, (y.to + y.from) / 2, y.from - 8].flatMap((py) => [[at + 5, py, 'start'], [at - 5, py, 'end']]);
        g.append(s('line', { x1: at, x2: at, y1: y.to, y2: y.from, ...pen }));
      } else {
        const points = (line.points || []).filter((p) => x.shows(p.x) && y.shows(p.y));
        if (points.length < 2) continue;
        g.append(s('path', { d: 'M' + points.map((p) => `${round(x.at(p.x))} ${round(y.at(p.y))}`).join('L'), ...pen }));
        const seen = points.filter((p) => x.holds(p.x) && y.holds(p.y)).reverse();
        places = seen.flatMap((p) => [[x.at(p.x) - 6, y.at(p.y) - 6, 'end'], [x.at(p.x) + 6, y.at(p.y) + 14, 'start']]);
      }
      if (!places.length || !line.label) continue;
      const [px, py, anchor] = freePlace(places, line.label, ink, x, y);
      g.append(s('text', { x: px, y: py, 'text-anchor': anchor, fill: t.soft, stroke: t.paper, 'stroke-width': 3, 'paint-order': 'stroke', text: line.label }));
    }
  }

  // ink returns positions on the visible curves and bars, so that labels can avoid them.
  ink(x, y) {
    const out = [];
    for (const one of this.shown()) {
      const bars = (one.kind || '').includes('bars'), joined = one.kind !== 'scatter' && !bars;
      let last = null;
      for (const p of one.points || []) {
        if (p.failed || !x.shows(p.x) || !y.shows(p.y)) { last = null; continue; }
        const at = [x.at(p.x), y.at(p.y)], steps = joined && last && out.length < 20000 ? Math.ceil(Math.hypot(at[0] - last[0], at[1] - last[1]) / 6) : 1;
        for (let k = 1; k <= steps; k++) out.push(steps === 1 ? at : [last[0] + (at[0] - last[0]) * k / steps, last[1] + (at[1] - last[1]) * k / steps]);
        if (bars) for (let py = at[1]; py < y.from; py += 6) out.push([at[0], py]);
        last = at;
      }
    }
    return out;
  }

  caption(svg, t, shown, left, H) {
    shown.forEach((one, k) => {
      const y = H + k * 18 + 4;
      svg.append(marker(one.i, left + 6, y, 4, this.color(t, one), one.dashed ? t.paper : this.color(t, one)),
        s('text', { x: left + 18, y: y + 4, fill: t.ink, text: one.name || this.name }));
    });
    if (this.panel.note) svg.append(s('text', { x: left, y: H + shown.length * 18 + 8, fill: t.soft, text: this.panel.note }));
  }

  drawLegend() {
    const series = this.panel.series || [], t = theme();
    if (series.length < 2) return this.legend.replaceChildren();
    const off = this.state.off || [];
    this.legend.replaceChildren(...series.map((one, i) => {
      const color = this.color(t, { ...one, i });
      return h('button', { type: 'button', 'aria-pressed': String(!off.includes(i)), title: 'Show or hide this series',
        on: { click: () => {
          this.set({ off: off.includes(i) ? off.filter((k) => k !== i) : [...off, i].sort((a, b) => a - b) });
          this.legend.children[i]?.focus();
        } } },
      s('svg', { viewBox: '0 0 22 12', 'aria-hidden': 'true' }, (one.kind || '').includes('bars') ? [s('rect', { x: 4, width: 14, height: 12, fill: color }), this.hatched({ ...one, i }) ? s('path', { d: hatching(4, 0, 14, 12), stroke: t.paper, 'stroke-width': 1.4 }) : ''] :
        [s('path', { d: 'M0 6h22', stroke: color, 'stroke-width': 2, 'stroke-dasharray': one.dashed ? '4 3' : null }), marker(i, 11, 6, 3.5, color, one.dashed ? t.paper : color)]),
      one.name || `series ${i + 1}`);
    }));
  }

  drawTools() {
    const toggle = (axis) => h('button', { type: 'button', disabled: !this.canBeLog[axis], 'data-scale': axis,
      on: { click: () => { this.set({ [axis + 's']: this.isLog(axis) ? 'lin' : 'log', [axis]: null }); this.tools.querySelector(`[data-scale=${axis}]`).focus(); } },
      text: `${axis}: ${this.isLog(axis) ? 'log' : 'linear'}`, title: `Switch the ${axis} axis between logarithmic and linear` });
    const zoomed = this.state.x || this.state.y;
    this.tools.replaceChildren(
      this.panel.x?.categories ? '' : toggle('x'), toggle('y'),
      h('button', { type: 'button', disabled: !zoomed, 'data-reset': true, text: 'Show all', on: { click: () => { this.set({ x: null, y: null }); this.svg.focus(); } } }),
      h('span', { class: 'gap' }),
      ...[['PNG', () => this.png()], ['SVG', () => this.savePicture()], ['CSV', () => save(this.name + '.csv', new Blob([this.csv()], { type: 'text/csv' }))]]
        .map(([name, call]) => h('button', { type: 'button', text: name, 'data-save': name, title: `Save what is shown as ${name}`, on: { click: call } })));
  }

  // Reading values with the pointer and the keyboard.
  listen(svg) {
    let start = null, box = null;
    const place = (e) => {
      const r = svg.getBoundingClientRect(), k = this.width / r.width;
      return [(e.clientX - r.left) * k, (e.clientY - r.top) * k];
    };
    svg.addEventListener('pointerdown', (e) => {
      if (e.button !== 0) return;
      start = place(e);
      svg.setPointerCapture(e.pointerId);
    });
    svg.addEventListener('pointermove', (e) => {
      const [px, py] = place(e);
      if (!start) return this.point(this.nearest(px, py));
      if (!box) this.cursor.append(box = s('rect', { fill: theme().colors[0], 'fill-opacity': 0.15, stroke: theme().colors[0] }));
      const area = this.selection(start, [px, py]);
      for (const [name, v] of Object.entries(area)) box.setAttribute(name, v);
    });
    svg.addEventListener('pointerup', (e) => {
      const from = start;
      start = null;
      if (!from || !box) return;
      box.remove();
      box = null;
      const a = this.selection(from, place(e));
      if (a.width < 6) return;
      const change = { x: [this.x.back(a.x), this.x.back(a.x + a.width)] };
      if (a.height < this.y.from - this.y.to - 1) change.y = [this.y.back(a.y + a.height), this.y.back(a.y)];
      this.set(change);
    });
    svg.addEventListener('pointercancel', () => { start = null; box?.remove(); box = null; });
    svg.addEventListener('pointerleave', () => { if (document.activeElement !== svg) this.point(null); });
    svg.addEventListener('dblclick', () => this.set({ x: null, y: null }));
    svg.addEventListener('blur', () => this.point(null));
    svg.addEventListener('keydown', (e) => this.key(e));
  }

  // selection returns the area between two positions. A flat area spans the whole height.
  selection([ax, ay], [bx, by]) {
    const clamp = (v, lo, hi) => Math.min(Math.max(v, lo), hi);
    const x1 = clamp(Math.min(ax, bx), this.x.from, this.x.to), x2 = clamp(Math.max(ax, bx), this.x.from, this.x.to);
    let y1 = clamp(Math.min(ay, by), this.y.to, this.y.from), y2 = clamp(Math.max(ay, by), this.y.to, this.y.from);
    if (Math.abs(ay - by) < 20) [y1, y2] = [this.y.to, this.y.from];
    return { x: x1, y: y1, width: x2 - x1, height: y2 - y1 };
  }

  nearest(px, py) {
    let best = null, least = 60 * 60;
    for (const m of this.marks) {
      const d = (m.px - px) ** 2 + (m.py - py) ** 2;
      if (d < least) [best, least] = [m, d];
    }
    return best;
  }

  words(m) {
    const xd = this.panel.x || {}, yd = this.panel.y || {};
    const at = xd.categories ? xd.categories[m.p.x] : format(xd.unit, m.p.x, 6);
    const out = [m.one.name || this.name, `${label(xd) || 'x'}: ${at}`];
    if (m.p.failed) out.push('failed: there is no value');
    else out.push(`${label(yd) || 'y'}: ${format(yd.unit, m.p.y, 5)}` + (m.p.hollow ? ' (disturbed)' : ''));
    if (m.p.low < m.p.high) out.push(`bar: ${format(yd.unit, m.p.low, 5)} to ${format(yd.unit, m.p.high, 5)}`);
    return out;
  }

  point(m) {
    this.current = m;
    this.cursor.replaceChildren();
    this.tip.hidden = !m;
    if (!m) return;
    this.cursor.append(s('circle', { cx: m.px, cy: m.py, r: 7, fill: 'none', stroke: theme().ink, 'stroke-width': 2 }));
    const [name, ...rest] = this.words(m);
    this.tip.replaceChildren(h('b', { text: name }), ...rest.map((text) => h('div', { text })));
    const k = this.host.clientWidth / this.width, left = m.px * k, flip = left > this.host.clientWidth / 2;
    this.tip.style.left = flip ? '' : `${left + 12}px`;
    this.tip.style.right = flip ? `${this.host.clientWidth - left + 12}px` : '';
    this.tip.style.top = `${Math.max(m.py * k - 20, 0)}px`;
  }

  key(e) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key in moves || e.key === 'ArrowUp' || e.key === 'ArrowDown') {
      e.preventDefault();
      if (!this.marks.length) return;
      const m = this.current || this.marks[0];
      let next = m;
      if (e.key in moves) {
        const own = this.marks.filter((o) => o.one.i === m.one.i).sort((a, b) => a.px - b.px), i = own.indexOf(m);
        next = this.current ? own[Math.min(Math.max(i + moves[e.key], 0), own.length - 1)] : m;
      } else {
        const list = [...new Set(this.marks.map((o) => o.one.i))], i = list.indexOf(m.one.i) + (e.key === 'ArrowDown' ? 1 : -1);
        const other = this.marks.filter((o) => o.one.i === list[(i + list.length) % list.length]);
        next = other.reduce((a, b) => (Math.abs(b.px - m.px) < Math.abs(a.px - m.px) ? b : a));
      }
      this.point(next);
      say(this.words(next).join(', '));
    } else if (e.key === '+' || e.key === '=' || e.key === '-') {
      e.preventDefault();
      const c = this.current ? this.current.px : (this.x.from + this.x.to) / 2, half = (this.x.to - this.x.from) / 2 * (e.key === '-' ? 2 : 0.5);
      this.set({ x: [this.x.back(c - half), this.x.back(c + half)] });
    } else if (e.key === '0' || e.key === 'Escape') {
      e.preventDefault();
      this.set({ x: null, y: null });
    }
  }

  // Exporting the visible chart as files.
  picture() {
    const kept = this.cursor;
    const { svg } = this.render(light, 960, 520, true);
    this.cursor = kept;
    return new XMLSerializer().serializeToString(svg);
  }
  savePicture() { save(this.name + '.svg', new Blob([this.picture()], { type: 'image/svg+xml' })); }
  async png() {
    const image = new Image(), url = URL.createObjectURL(new Blob([this.picture()], { type: 'image/svg+xml' }));
    image.src = url;
    await image.decode();
    const canvas = h('canvas', { width: image.width * 2, height: image.height * 2 });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
    save(this.name + '.png', blob);
    return blob;
  }
  csv() {
    const quote = (v) => (/[",\n\r]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
    const lines = [['series', label(this.panel.x || {}) || 'x', (label(this.panel.y || {}) || 'y') + (this.panel.y?.unit === 'us' ? '_us' : ''), 'low', 'high', 'status']];
    for (const { one, p } of this.marks) {
      const at = this.panel.x?.categories ? this.panel.x.categories[p.x] : String(p.x), bar = p.low < p.high;
      lines.push([one.name || this.name, at, p.failed ? '' : String(p.y), bar ? String(p.low) : '', bar ? String(p.high) : '', p.failed ? 'failed' : p.hollow ? 'disturbed' : 'ok']);
    }
    return lines.map((l) => l.map(quote).join(',')).join('\n') + '\n';
  }
}

// marker draws the marker of a series, which identifies it without color.
function marker(i, x, y, r, stroke, fill) {
  const shapes = [
    `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`, `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
    `M${x} ${y - r * 1.2}l${r * 1.2} ${r * 2.2}h${-r * 2.4}Z`, `M${x} ${y - r * 1.3}l${r * 1.3} ${r * 1.3}l${-r * 1.3} ${r * 1.3}l${-r * 1.3} ${-r * 1.3}Z`,
    `M${x} ${y + r * 1.2}l${r * 1.2} ${-r * 2.2}h${-r * 2.4}Z`, `M${x - r * 0.4} ${y - r * 1.2}h${r * 0.8}v${r * 0.8}h${r * 0.8}v${r * 0.8}h${-r * 0.8}v${r * 0.8}h${-r * 0.8}v${-r * 0.8}h${-r * 0.8}v${-r * 0.8}h${r * 0.8}Z`,
    `M${x - r} ${y - r}h${2 * r}l${-2 * r} ${2 * r}h${2 * r}Z`, `M${x - r * 1.3} ${y - r * 0.5}h${r * 2.6}v${r}h${-r * 2.6}Z`,
  ];
  return s('path', { d: shapes[i % shapes.length], fill, stroke, 'stroke-width': 1.5 });
}

// freePlace returns the first place where a label lies within the axes and covers no ink. Places that reach beyond the
// axes are moved into them. The last resort is a label that covers ink.
function freePlace(places, text, ink, x, y) {
  const width = widthOf(text), left = ([px, , anchor]) => px - (anchor === 'end' ? width : anchor === 'middle' ? width / 2 : 0);
  const inside = (place) => left(place) >= x.from && left(place) + width <= x.to && place[1] - 11 >= y.to && place[1] + 3 <= y.from;
  const free = (place) => !ink.some(([px, py]) => px > left(place) - 6 && px < left(place) + width + 6 && py > place[1] - 16 && py < place[1] + 8);
  const moved = places.map((place) => [Math.max(x.from + 2, Math.min(left(place), x.to - width - 2)), Math.max(place[1], y.to + 12), 'start']);
  return places.find((place) => inside(place) && free(place)) || moved.find(free) || moved[0];
}

const ruler = document.createElement('canvas').getContext('2d');
function widthOf(text) {
  ruler.font = `${textSize}px Liberation Sans, Arial, sans-serif`;
  return ruler.measureText(text).width;
}

// hatching returns the path of diagonal lines in a rectangle.
function hatching(x, y, w, height) {
  let path = '';
  for (let d = 3 - height; d < w; d += 6) {
    const from = Math.max(d, 0), to = Math.min(d + height, w);
    if (from < to) path += `M${round(x + from)} ${round(y + height - (from - d))}L${round(x + to)} ${round(y + height - (to - d))}`;
  }
  return path;
}

function round(v) { return Math.round(Math.min(Math.max(v, -1e5), 1e5) * 10) / 10; }

// The state of a chart in the address, such as x=1..2;y=3..4;xs=log;ys=lin;off=0,2
export function parseState(text) {
  const state = {};
  for (const part of (text || '').split(';')) {
    const [key, value = ''] = part.split('=');
    if (key === 'x' || key === 'y') {
      const ends = value.split('..').map(Number);
      if (ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1]) state[key] = ends;
    } else if ((key === 'xs' || key === 'ys') && (value === 'log' || value === 'lin')) state[key] = value;
    else if (key === 'off') state.off = value.split(',').map(Number).filter((v) => Number.isInteger(v) && v >= 0);
  }
  return state;
}
export function stateText(state) {
  const parts = [];
  for (const axis of ['x', 'y']) if (state[axis]) parts.push(`${axis}=${state[axis].map((v) => Number(v.toPrecision(6))).join('..')}`);
  for (const key of ['xs', 'ys']) if (state[key]) parts.push(`${key}=${state[key]}`);
  if (state.off?.length) parts.push(`off=${state.off.join(',')}`);
  return parts.join(';');
}
