// Texts and small elements that several views use.
import { h } from './dom.js';

export const plural = (n, one, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

export function time(text) {
  const t = new Date(text);
  if (Number.isNaN(t.getTime()) || t.getFullYear() < 2) return '';
  return t.toLocaleString('sv-SE').slice(0, 16);
}

export function duration(seconds) {
  if (!(seconds >= 0)) return '';
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const m = Math.round(seconds / 60);
  return m < 60 ? `${m} min` : `${Math.floor(m / 60)} h ${m % 60} min`;
}

// kind returns the style class of an outcome or a status.
export function kind(outcome) {
  return { complete: 'ok', ok: 'ok', running: 'live', failed: 'failed', timeout: 'failed', faster: 'ok', slower: 'failed', lost: 'failed', fixed: 'ok', same: 'none', new: 'none' }[outcome] || 'skipped';
}
// state returns the style class of a run: a complete run is good only if nothing failed, is lost or missing, or was
// disturbed.
export function state(info) {
  if (info.outcome === 'running') return 'live';
  if (info.failed > 0 || info.lost > 0) return 'failed';
  return info.outcome === 'complete' && !info.missing && !info.disturbed ? 'ok' : 'skipped';
}
export const chip = (text, of) => h('span', { class: `chip ${of}`, text });

export function counts(info) {
  const parts = [[info.ok, 'ok', info.disturbed ? 'skipped' : 'ok'], [info.failed, 'failed', 'failed'], [info.lost, 'lost', 'failed'], [info.missing, 'missing', 'skipped'], [info.skipped, 'skipped', '']];
  return parts.filter(([n]) => n > 0).map(([n, word, of]) => chip(`${n.toLocaleString('en')} ${word}`, of));
}

// quality describes how far the times of a run can be trusted.
export function quality(info) {
  if (!info.ok) return '';
  if (info.disturbed) return chip(`${info.disturbed.toLocaleString('en')} of ${info.ok.toLocaleString('en')} disturbed`, 'skipped');
  return h('span', { class: 'soft', text: info.computed ? 'computed' : 'undisturbed' });
}

export function bytes(n) {
  for (const [size, unit] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]) if (n >= size) return `${(n / size).toFixed(n < 10 * size ? 1 : 0)} ${unit}`;
  return `${n} bytes`;
}

// cited links a sentence to the rows behind it. It opens their list, which is folded.
const cited = (id) => h('a', { href: `#why-${id}`, text: `[${id}]`, title: 'The rows behind this sentence', on: { click: (e) => {
  e.preventDefault();
  const rows = document.getElementById(`why-${id}`);
  if (rows) rows.closest('details').open = true;
  rows?.scrollIntoView();
} } });

// evidence lists the rows behind generated sentences.
export function evidence(list) {
  if (!list?.length) return '';
  return h('details', { id: 'evidence' }, h('summary', { text: 'Rows behind the sentences' }),
    list.flatMap((e) => [h('h3', { id: `why-${e.id}`, text: e.id }), h('ul', {}, e.rows.map((text) => h('li', { text })))]));
}

// sectionTable makes the table of a section. Its last column leads from lines to the rows that they rest on.
export function sectionTable(sec) {
  if (!sec.table?.length) return '';
  const of = (i) => (sec.right?.[i] ? 'num' : null);
  const lines = sec.table.slice(1).map((line, n) => line.map((text, i) => {
    const id = i === line.length - 1 && sec.cites?.[n];
    return id ? h('td', {}, cited(id)) : h('td', { class: of(i), text });
  }));
  return table(sec.table[0].map((text, i) => h('th', { scope: 'col', class: of(i), text })), lines, { label: sec.title });
}

// blocks makes paragraphs and lists of a section's blocks.
export function blocks(list) {
  return (list || []).map((b) => {
    const items = (b.Items || []).map((spans) => spans.map((sp) => (sp.Link ? cited(sp.Link) : sp.Code ? h('code', { text: sp.Text }) : sp.Bold ? h('b', { text: sp.Text }) : sp.Text)));
    if (!b.List) return items.map((i) => h('p', {}, i));
    return h(b.Ordered ? 'ol' : 'ul', {}, items.map((i) => h('li', {}, i)));
  });
}

// table makes a table. Cells are texts or elements.
export function table(head, rows, props = {}) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': props.label || 'Table' },
    h('table', { class: props.class || null }, h('thead', {}, h('tr', {}, head.map((t) => (t instanceof Node ? t : h('th', { scope: 'col', text: t }))))),
      h('tbody', {}, rows.map((r) => (r instanceof Node ? r : h('tr', {}, r.map((c) => (c instanceof Node ? c : h('td', { text: c })))))))));
}

// select makes a choice. Values are texts, or pairs of a value and its text.
export const select = (name, values, value, change, none) => h('label', { text: name }, h('select', { on: { change: (e) => change(e.target.value) } },
  none !== undefined ? h('option', { value: '', text: none }) : null,
  values.map((v) => (Array.isArray(v) ? v : [v, v])).map(([v, text]) => h('option', { value: v, selected: v === value, text }))));
