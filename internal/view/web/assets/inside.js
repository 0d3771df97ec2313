// The profile of a simulated kernel: the floor plan of a SIP with the load of its links over time.
import { h, s, say } from './dom.js';
import { api, query, remember } from './app.js';
import { select, table } from './words.js';

// The colors of loads, as in package draw. Links without traffic are not drawn.
const colors = ['#FFFFD9', '#EDF8B1', '#C7E9B4', '#7FCDBB', '#41B6C4', '#1D91C0', '#225EA8', '#253494', '#081D58']
  .map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
const darkMode = matchMedia('(prefers-color-scheme: dark)');
function heat(share) {
  const [from, to] = darkMode.matches ? [0.68, 0.05] : [0.42, 1]; // the largest load stands out most
  const t = (from + (to - from) * Math.min(Math.max(share, 0), 1)) * (colors.length - 1), i = Math.min(Math.floor(t), colors.length - 2);
  return `rgb(${colors[i].map((v, k) => Math.round(v + (t - i) * (colors[i + 1][k] - v))).join(' ')})`;
}

const micros = (ps) => (ps && ps < 1e6 ? `${Number((ps / 1e3).toPrecision(4))} ns` : `${Number((ps / 1e6).toPrecision(4))} µs`);
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

// insideView makes the section of a run's page, or nothing if no kernel has a profile.
export function insideView(page, asked) {
  const kernels = page.inside || [];
  if (!kernels.length) return '';
  const host = h('div'), q = query();
  const first = kernels.find((k) => k.file === q.get('inside')) || kernels.find((k) => k.chosen) || kernels[0];
  let turn = 0;
  const show = async (kernel, place) => {
    const mine = ++turn;
    try {
      const record = await api('inside', { ...asked, file: kernel.file });
      if (mine === turn) host.replaceChildren(new Floor(record, kernel, place).element);
    } catch (error) {
      if (mine === turn) host.replaceChildren(h('p', { class: 'notice bad', text: error.message }));
    }
  };
  show(first, { sip: q.get('sip'), at: Number(q.get('at')) || 0 });
  const options = kernels.map((k, i) => h('option', { value: i, selected: k === first, text: k.label }));
  return h('section', { id: 'inside' }, h('h2', { text: 'Inside the kernels' }),
    h('label', { text: 'Kernel' }, h('select', { class: 'grow', on: { change: (e) => {
      const kernel = kernels[e.target.value];
      remember({ inside: kernel.file, sip: null, at: null });
      show(kernel, { sip: null, at: 0 });
    } } }, options)),
    page.inside_more ? h('p', { class: 'soft small', text: `The first ${kernels.length} of ${kernels.length + page.inside_more}; a filter chooses others.` }) : '', host);
}

// Floor is the floor plan of one kernel. Its time is 0 for the whole kernel, else the number of a bucket.
class Floor {
  constructor(record, kernel, place) {
    this.record = record;
    this.loads = (record.links || []).map((l) => Uint8Array.from(atob(l.load || ''), (c) => c.charCodeAt(0)));
    const sips = [...new Set((record.links || []).map((l) => l.sip))];
    this.sip = sips.includes(Number(place.sip)) && place.sip !== null ? Number(place.sip) : sips[0] ?? 0;
    this.at = Math.min(Math.max(Math.trunc(place.at), 0), record.buckets);
    this.picture = h('div', { class: 'floor' });
    this.slider = h('input', { type: 'range', id: 'when', min: 0, max: record.buckets, step: 1, 'aria-label': 'Time in the kernel', on: { input: () => { this.stop(); this.go(Number(this.slider.value)); } } });
    this.button = h('button', { type: 'button', id: 'play', text: 'Play', on: { click: () => (this.timer ? this.stop() : this.play()) } });
    this.words = h('p', { id: 'moment' });
    this.list = h('div');
    this.scale = h('div');
    sips.sort((a, b) => a - b);
    this.element = h('figure', { id: 'floor' },
      h('figcaption', { text: `Load of the links, a kernel of ${micros(record.kernel_ps)}` }),
      h('div', { class: 'bar' }, this.button, h('label', { class: 'grow', text: 'Time: the left end shows the whole kernel' }, this.slider),
        sips.length > 1 ? select('SIP', sips.map(String), String(this.sip), (v) => { this.sip = Number(v); remember({ sip: v }); this.draw(); }) : ''),
      this.words, this.picture, this.scale, this.list,
      h('p', { class: 'soft small', text: 'Every line is a link in one direction, drawn on the right side of its path. Links that carried nothing are not drawn.' +
        (record.others ? ` The profile has the ${record.links.length} busiest links; ${record.others} others carried data too.` : '') }));
    this.draw();
  }

  // share returns the fraction of the shown time for which a link was sending.
  share(i) {
    if (this.at === 0) return this.record.links[i].busy_ps / this.record.kernel_ps;
    return (this.loads[i][this.at - 1] || 0) / 255;
  }

  // draw draws the SIP.
  draw() {
    const { plan, links } = this.record, top = plan.w * 0.045, pad = 0.6;
    const svg = s('svg', { viewBox: `${-pad} ${-top} ${plan.w + 2 * pad} ${plan.h + top + pad}`, role: 'img', 'font-family': 'Liberation Sans, Arial, sans-serif', 'font-size': plan.w / 60 });
    svg.append(s('rect', { x: -pad, y: -top, width: plan.w + 2 * pad, height: plan.h + top + pad, fill: 'var(--paper)' }));
    for (const b of plan.boxes || []) {
      svg.append(s('rect', { x: b.x, y: b.y, width: b.w, height: b.h, fill: b.kind === 'hbm' || b.kind === 'pe' ? 'var(--line)' : 'var(--card)', stroke: 'var(--line)', 'stroke-width': 0.1 }));
    }
    for (const b of plan.boxes || []) {
      if (b.kind === 'cube') svg.append(s('text', { x: b.x + b.w / 2, y: b.y + b.h / 2, 'text-anchor': 'middle', 'dominant-baseline': 'middle', fill: 'var(--soft)', text: b.name }));
      if (b.kind === 'io') svg.append(s('text', { x: b.x + 0.6, y: b.y + plan.w / 50, fill: 'var(--soft)', text: b.name }));
    }
    this.lines = [];
    for (let i = links.length - 1; i >= 0; i--) { // the busiest link is drawn last, on top
      if (links[i].sip !== this.sip) continue;
      const line = arrow(links[i].line);
      line.append(s('title', { text: `${links[i].name}: ${links[i].bytes.toLocaleString('en')} bytes, sending ${percent(links[i].busy_ps / this.record.kernel_ps)} of the time` }));
      svg.append(line);
      this.lines.push([i, line]);
    }
    this.svg = svg;
    this.picture.replaceChildren(svg);
    this.paint();
  }

  // paint colors the links by their load in the shown time.
  paint() {
    const { record } = this;
    const most = this.at === 0 ? Math.max(0.01, ...record.links.map((_, i) => this.share(i))) : 1; // the darkest
    for (const [i, line] of this.lines) {
      const share = this.share(i);
      line.setAttribute('visibility', share > 0 ? 'visible' : 'hidden');
      line.setAttribute('fill', heat(share / most));
    }
    this.scale.replaceChildren(legend(most));
    const busy = record.links.map((l, i) => [this.share(i), l]).filter(([share]) => share > 0).sort((a, b) => b[0] - a[0]);
    const when = this.at === 0 ? 'The whole kernel' : `From ${micros((this.at - 1) * record.bucket_ps)} to ${micros(this.at * record.bucket_ps)}`;
    const top = busy.length ? `, the busiest ${busy[0][1].name} for ${percent(busy[0][0])} of it` : '';
    const text = `${when}: ${busy.length} links are sending${top}.`;
    this.words.textContent = text;
    this.slider.value = this.at;
    this.slider.setAttribute('aria-valuetext', text);
    this.svg.setAttribute('aria-label', `Floor plan of sip${this.sip}. ${text}`);
    this.list.replaceChildren(table(['Link', 'Sending', 'Total bytes', 'Total queueing'], busy.slice(0, 10).map(([share, l]) =>
      [l.name, percent(share), l.bytes.toLocaleString('en'), micros(l.wait_ps)]), { label: 'The busiest links' }));
  }

  go(at) {
    this.at = at;
    this.paint();
    if (!this.timer) remember({ at: at || null });
  }
  play() {
    this.button.textContent = 'Stop';
    this.timer = setInterval(() => {
      if (!this.element.isConnected) return this.stop();
      if (this.at >= this.record.buckets) { this.stop(); return say(this.words.textContent); }
      this.go(this.at + 1);
    }, 80);
    this.go(this.at >= this.record.buckets ? 1 : this.at + 1);
  }
  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = 'Play';
    if (this.element.isConnected) remember({ at: this.at || null });
  }
}

// arrow draws a directed link, shifted to its right side.
function arrow([x0, y0, x1, y1]) {
  const n = Math.hypot(x1 - x0, y1 - y0) || 1, dx = (x1 - x0) / n, dy = (y1 - y0) / n;
  const at = (x, y, along, across) => `${(x + dx * along - dy * across).toFixed(3)},${(y + dy * along + dx * across).toFixed(3)}`;
  const head = Math.min(0.45, n), mid = 0.24, half = 0.13;
  return s('polygon', { points: [at(x0, y0, 0, mid - half), at(x1, y1, -head, mid - half), at(x1, y1, -head, mid - 0.22), at(x1, y1, 0, mid),
    at(x1, y1, -head, mid + 0.28), at(x1, y1, -head, mid + half), at(x0, y0, 0, mid + half)].join(' ') });
}

function legend(most) {
  const svg = s('svg', { viewBox: '0 0 320 30', class: 'scale', role: 'img', 'aria-label': `Colours from 0 to ${percent(most)} of the time`, 'font-family': 'Liberation Sans, Arial, sans-serif', 'font-size': 11 });
  svg.append(s('rect', { width: 320, height: 30, fill: 'var(--paper)' }));
  for (let i = 0; i < 50; i++) svg.append(s('rect', { x: 10 + 6 * i, y: 3, width: 6.3, height: 9, fill: heat((i + 0.5) / 50) }));
  for (const [share, text] of [[0, '0 %'], [0.5, `${percent(most / 2)} of the time`], [1, percent(most)]]) {
    svg.append(s('text', { x: 10 + 300 * share, y: 25, fill: 'var(--soft)', 'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle', text }));
  }
  return svg;
}
