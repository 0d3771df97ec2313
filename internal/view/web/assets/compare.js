// The comparison of runs, and the history of a point over many runs.
import { h } from './dom.js';
import { api, go, link, query } from './app.js';
import { drawFigures } from './run.js';
import { chip, kind, plural, select, table, time } from './words.js';

const again = (path, changes) => {
  const q = query();
  for (const [name, value] of Object.entries(changes)) if (value) q.set(name, value); else q.delete(name);
  return go(path, q);
};

const runLink = (r) => link(`${r.bench}, ${time(r.start)}`, '/run', { run: r.run });

export async function comparePage(body) {
  const q = query(), page = await api('compare', q);
  document.title = `${page.runs[0].bench} compared · kernbench`;
  const figures = h('div', { class: 'figures' });
  const only = h('input', { type: 'text', id: 'only', value: q.get('only') || '', placeholder: 'size>=1M', spellcheck: 'false' });
  const swapped = () => go('/compare', [...q].filter(([name]) => name !== 'run' && !name.startsWith('z.')).concat(q.getAll('run').reverse().map((r) => ['run', r])));
  body.append(h('div', {}, h('p', { class: 'soft small' }, link('All runs', '/'), ' / compare'), h('h1', { text: 'Before and after' }),
    h('ol', {}, page.runs.map((r) => h('li', {}, runLink(r), h('span', { class: 'soft', text: ` ${[r.host, r.backend, r.run].filter(Boolean).join(' · ')} ` }), r.outcome === 'complete' ? '' : chip(r.outcome, kind(r.outcome))))),
    h('form', { class: 'bar', on: { submit: (e) => { e.preventDefault(); again('/compare', { only: only.value.trim() }); } } },
      h('label', { class: 'grow', text: 'Only points where' }, only), h('button', { type: 'submit', text: 'Filter' }),
      select('Metric', page.metrics || [], page.metric, (metric) => again('/compare', { metric })),
      h('button', { type: 'button', text: 'Swap order', on: { click: swapped } })),
    page.ignored ? h('p', { class: 'notice', text: `The runs differ in ${page.ignored}: points are paired without it.` }) : '',
    figures, page.no_figure ? h('p', { class: 'soft', text: page.no_figure }) : '',
    (page.comparisons || []).map(comparison)));
  drawFigures(figures, page, {});
  return null;
}

function comparison(c) {
  const kinds = (c.lines || []).map((cells) => kind(cells[1]));
  const worst = ['failed', 'skipped'].find((k) => kinds.includes(k)) || 'ok'; // skipped: some verdict is ambiguous
  return h('section', { class: 'comparison' }, h('h2', { text: c.title }),
    h('div', { class: `verdict ${worst}` }, h('p', {}, h('b', { class: 'outcome', text: c.summary }))),
    (c.differences || []).map((text) => h('p', { class: 'soft small', text: `Differs in ${text}` })),
    c.decisive ? h('button', { type: 'button', text: 'Compare anyway', on: { click: () => go('/compare', [...query(), ...c.decisive.map((name) => ['ignore', name])]) } }) : '',
    c.shared.length ? h('p', { class: 'soft small', text: c.shared.join('  ') }) : '',
    table(c.columns, (c.lines || []).map((cells) => h('tr', { class: kind(cells[1]) === 'failed' ? 'failed' : null },
      cells.map((text, i) => (i === 1 ? h('td', {}, chip(text, kind(text))) : h('td', { class: i > 1 && i < 7 ? 'num' : null, text }))))), { label: c.title }),
    c.more ? h('p', { class: 'soft', text: `${plural(c.more, 'more point')} can be seen with a filter.` }) : '',
    c.remarks.map((text) => h('p', { class: 'soft small', text })));
}

export async function historyPage(body) {
  const q = query(), page = await api('history', q);
  document.title = `${page.point} · kernbench`;
  const figures = h('div', { class: 'figures' });
  body.append(h('div', {}, h('p', { class: 'soft small' }, link('All runs', '/'), ' / history'), h('h1', { text: page.point }),
    h('div', { class: `verdict ${page.state}` }, h('p', { id: 'changes',
      text: page.summary.join(' ') })),
    h('div', { class: 'bar' }, select('Metric', page.metrics || [], page.metric, (metric) => again('/history', { metric }))), figures,
    h('h2', { text: 'Runs' }), table(['Started', 'Value', 'Trials', 'Change', 'Commit', 'Host', 'Run'], page.runs.slice().reverse().map((m) => h('tr', { class: m.change === 'slower' ? 'failed' : null },
      h('td', {}, runLink(m.info)), h('td', { text: (m.value || 'failed') + (m.disturbed ? ' (disturbed)' : '') + (m.others ? ' (other points)' : '') }), h('td', { text: m.trials }),
      h('td', {}, m.change ? chip(`${m.change} ${m.effect}`, kind(m.change)) : '', m.change ? ` ${m.note}` : '', m.changed ? h('div', { class: 'soft small', text: `changed: ${m.changed}` }) : null), h('td', { class: 'soft', text: m.info.commit || '' }), h('td', { text: m.info.host }), h('td', { class: 'soft', text: m.info.run }))), { label: 'Runs' })));
  drawFigures(figures, page, {});
  return null;
}
