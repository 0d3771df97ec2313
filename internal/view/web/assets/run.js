// The page of one run: its verdict, figures, failures and rows, and its progress while it is running.
import { h, say } from './dom.js';
import { api, follow, go, link, query, remember } from './app.js';
import { Chart, parseState, stateText } from './chart.js';
import { insideView } from './inside.js';
import { taglist } from './runs.js';
import { blocks, chip, counts, duration, evidence, kind, plural, quality, sectionTable, select, state, table, time } from './words.js';

export async function runPage(body) {
  const q = query(), asked = { run: q.get('run') || '', only: q.get('only') || '', plot: q.get('plot') || '' };
  const page = await api('run', asked), info = page.info;
  document.title = `${info.bench} · ${time(info.start)} · kernbench`;
  const figures = h('div', { class: 'figures' }), live = h('div');
  const place = { rows: Number(q.get('from')) || 0, sort: q.get('sort') || '', trials: q.get('trials') || '', columns: q.get('columns') || '' };
  const rows = h('div');
  const content = h('div', { class: 'content' },
    h('p', { class: 'soft small' }, link('All runs', '/'), ` / ${info.folder}`),
    h('h1', { text: info.bench || '(no name)' }),
    h('p', { class: 'soft', text: [time(info.start), info.host, info.backend, info.commit ? `commit ${info.commit}` : '', `run ${info.id}`].filter(Boolean).join(' · ') }),
    taglist(info, (tag) => go('/', { q: `tag:${tag}` })), (info.notes || []).map((text) => h('p', { class: 'soft note', text })), chips(info), live, verdict(page), ...(page.problems || []).map((text) => h('p', { class: 'notice bad', text })),
    filter(page, asked), h('section', { 'aria-label': 'Figures', id: 'figures' }, figures), insideView(page, asked), failures(page), sections(page), evidence(page.evidence),
    h('h2', { id: 'rows', text: 'Results' }), rows, about(page));
  drawFigures(figures, page, asked);
  body.append(h('div', { class: 'withcontents' }, contents(content), content));
  await drawRows(rows, asked, place);
  if (info.outcome !== 'running') return null;
  return watch(live, figures, rows, asked, place, info);
}

const chips = (info) => h('div', { class: 'chips', id: 'chips' }, chip(info.outcome, state(info)), counts(info), quality(info),
  info.seconds ? h('span', { class: 'soft', text: duration(info.seconds) }) : '');

// contents lists the parts of the page, which is long if a run has many figures.
function contents(content) {
  const entries = [];
  for (const e of content.querySelectorAll('#verdict, figure[id^=figure-], h2, .content > details')) {
    if (e.tagName === 'H2' && e.closest('#verdict')) continue;
    if (!e.id) e.id = `part-${entries.length}`;
    entries.push([e.id, e.id === 'verdict' ? 'Answer' : (e.querySelector('figcaption, summary') || e).textContent]);
  }
  return h('nav', { class: 'contents', 'aria-label': 'Contents' }, h('details', { open: matchMedia('(min-width: 70rem)').matches },
    h('summary', { text: 'Contents' }), h('ol', {}, entries.map(([id, text]) => h('li', {}, h('a', { href: `#${id}`, text, on: { click: (e) => {
      e.preventDefault();
      const target = document.getElementById(id);
      if (target?.tagName === 'DETAILS') target.open = true;
      target?.scrollIntoView();
    } } }))))));
}

// verdict leads the page: the answer of the bench, or a summary of the run, and whether its times can be trusted.
function verdict(page) {
  const lead = (page.sections || []).filter((sec) => sec.lead);
  return h('section', { class: `verdict ${state(page.info)}`, id: 'verdict', 'aria-label': 'Verdict' },
    lead.flatMap((sec) => [h('h2', { text: sec.title }), blocks(sec.blocks), sectionTable(sec)]),
    h('p', { id: 'summary', text: page.summary }),
    page.remarks?.length ? h('details', {}, h('summary', { text: plural(page.remarks.length, 'remark') }), h('ul', {}, page.remarks.map((text) => h('li', { text })))) : '');
}

// filter is the form that chooses the rows and the figure.
function filter(page, asked) {
  const only = h('input', { type: 'text', id: 'only', value: asked.only, placeholder: "size>=1M && status==ok", spellcheck: 'false', autocomplete: 'off' });
  const plot = Object.fromEntries((asked.plot || '').split(',').filter(Boolean).map((w) => w.split('=')));
  const again = (changes) => go('/run', Object.entries({ ...asked, ...changes }).filter(([, v]) => v));
  const chosen = (changes) => {
    const p = { ...plot, ...changes };
    if (!p.x) return again({ plot: '' });
    again({ plot: `x=${p.x}` + (p.y ? `,y=${p.y}` : '') + (p.by ? `,by=${p.by}` : '') });
  };
  const names = page.names || [], metrics = page.metrics || [];
  return h('form', { class: 'bar', on: { submit: (e) => { e.preventDefault(); again({ only: only.value.trim() }); } } },
    h('label', { class: 'grow', text: 'Only rows where' }, only), h('button', { type: 'submit', text: 'Filter' }),
    asked.only ? h('button', { type: 'button', text: 'All rows', on: { click: () => again({ only: '' }) } }) : '',
    names.length ? [select('X axis', names, plot.x, (x) => chosen({ x }), 'default'),
      select('Y axis', metrics, plot.y, (y) => chosen({ y, x: plot.x || names[0] }), 'time_us'),
      select('Group by', names, plot.by, (by) => chosen({ by, x: plot.x || names.find((n) => n !== by) }), 'everything that varies')] : '');
}

export function drawFigures(host, page, asked) {
  const charted = (f) => (f.panels || []).every((p) => p.series || p.lines);
  host.replaceChildren(...(page.figures || []).map((f) => {
    const name = `z.${f.name}`;
    const inner = charted(f) ? h('div', { class: 'panels' }, f.panels.map((p, i) => {
      const at = i ? `${name}.${i}` : name;
      const alt = f.panels.length > 1 ? `${f.title || f.name}: ${p.title || `panel ${i + 1}`}` : f.alt;
      return new Chart(p, f.panels.length > 1 ? `${f.name}-${i + 1}` : f.name, f.title, alt, parseState(query().get(at)), (state) => remember({ [at]: stateText(state) })).element;
    })) : h('img', { src: `/api/figure.svg?${new URLSearchParams({ ...asked, figure: f.name })}`, alt: f.alt, loading: 'lazy' });
    return h('figure', { id: `figure-${f.name}` }, h('figcaption', { text: f.title || f.name }), inner, f.caption ? h('p', { class: 'soft small', text: f.caption }) : '');
  }));
  if (page.no_figure) host.append(h('p', { class: 'soft', text: page.no_figure }));
}

function failure(f) {
  return h('details', {}, h('summary', {}, chip(f.status, 'failed'), ' ', f.point, f.trial ? ` (trial ${f.trial})` : '', h('div', { class: 'small', text: f.reason })),
    f.output ? [h('h3', { text: 'Final output' }), h('pre', { text: f.output })] : '',
    f.ranks?.length ? [h('h3', { text: 'How each rank ended' }), h('ul', {}, f.ranks.map((text) => h('li', { class: 'mono', text })))] : '',
    f.logs ? h('p', { class: 'soft small', text: `The whole output is in ${f.logs}` }) : '');
}

function failures(page) {
  if (!page.failed) return '';
  const list = (page.failures || []).map(failure);
  if (list.length) list[0].open = true;
  return h('section', { id: 'failures' }, h('h2', { text: plural(page.failed, 'failure') }), list,
    page.failed > list.length ? h('p', { class: 'soft', text: `The first ${list.length} are shown; "status==failed" filters the rows.` }) : '');
}

function sections(page) {
  return (page.sections || []).filter((sec) => !sec.lead).map((sec) => {
    const inner = [blocks(sec.blocks), sectionTable(sec), sec.grid ? grid(sec.grid, sec.title) : ''];
    if (sec.detail) return h('details', {}, h('summary', { text: sec.title }), inner);
    return h('section', {}, h('h2', { text: sec.title }), inner);
  });
}

function grid(g, title) {
  return table([g.Corner, ...(g.Columns || [])], (g.Rows || []).map((r) => h('tr', {}, h('th', { scope: 'row', text: r.Name }),
    (r.Cells || []).map((c) => h('td', { class: c.Status ? kind(c.Status) : '', title: c.Note || null, text: c.Text })))), { class: 'grid', label: title });
}

// drawRows shows a part of the tables: a line for each point, as in the terminal, or for each trial. A click on a
// heading sorts by its column.
async function drawRows(host, asked, place) {
  const data = await api('rows', { ...asked, sort: place.sort, from: place.rows, trials: place.trials, columns: place.columns });
  const again = async (changes) => {
    Object.assign(place, changes);
    remember({ from: place.rows || null, sort: place.sort, trials: place.trials, columns: place.columns });
    try { await drawRows(host, asked, place); } catch (error) { say(error.message); }
  };
  const last = data.from + data.tables.reduce((n, t) => n + t.rows.length, 0), each = place.trials === 'each';
  const lines = data.total ? `${(data.from + 1).toLocaleString('en')} to ${last.toLocaleString('en')} of ${plural(data.total, each ? 'row' : 'point')}` : '';
  host.replaceChildren(data.total ? '' : h('p', { class: 'notice', text: 'No row matches.' }),
    ...data.tables.flatMap((t) => rowTable(t, data.tables.length > 1, asked, place, again)),
    h('div', { class: 'bar' }, h('span', { class: 'soft', text: lines }),
      data.from > 0 ? h('button', { type: 'button', text: 'Previous', on: { click: () => again({ rows: Math.max(0, data.from - 200) }) } }) : '',
      last < data.total ? h('button', { type: 'button', text: 'Next', on: { click: () => again({ rows: last }) } }) : '',
      data.trials ? h('button', { type: 'button', 'data-trials': true, text: each ? 'One line per point' : 'One line per trial', on: { click: () => again({ rows: 0, trials: each ? '' : 'each' }) } }) : '',
      data.hidden || place.columns ? h('button', { type: 'button', 'data-columns': true, text: place.columns ? 'Main columns' : plural(data.hidden, 'more column'), on: { click: () => again({ columns: place.columns ? '' : 'all' }) } }) : '',
      h('a', { class: 'button', href: `/api/rows.csv?${new URLSearchParams(asked)}`, download: '', text: 'All as CSV' })));
}

function rowTable(t, titled, asked, place, again) {
  const head = t.columns.map((c) => {
    const way = place.sort === c.name ? 'ascending' : place.sort === '-' + c.name ? 'descending' : null;
    return h('th', { scope: 'col', class: c.numeric ? 'num' : null, 'aria-sort': way }, h('button', { type: 'button', title: 'Sort by this column',
      text: c.title + (way ? (way === 'ascending' ? ' ↑' : ' ↓') : ''), on: { click: () => again({ rows: 0, sort: way === 'ascending' ? '-' + c.name : way ? '' : c.name }) } }));
  });
  const lines = t.rows.map((r) => h('tr', { class: r.status === 'failed' ? 'failed' : r.disturbed ? 'doubt' : null },
    r.cells.map((c, i) => h('td', { class: t.columns[i].numeric ? 'num' : null, title: c.x || null, text: c.t })),
    h('td', {}, link('history', '/history', { run: asked.run, point: r.point }, { title: 'This point over all runs' }))));
  return [titled ? h('h3', { text: t.title }) : '', t.constants.length ? h('p', { class: 'soft small', text: t.constants.join('  ') }) : '',
    table([...head, h('th', {}, h('span', { class: 'unseen', text: 'History' }))], lines, { label: t.title }),
    (t.legend || []).map((text) => h('p', { class: 'soft small legendline', text })), t.note ? h('p', { class: 'soft small', text: t.note }) : ''].flat();
}

function about(page) {
  return h('details', {}, h('summary', { text: 'Where the numbers come from' }),
    h('dl', { class: 'facts' }, (page.facts || []).map((f) => [h('dt', { text: f.Name }), h('dd', { text: f.Value })])),
    page.commands?.length ? [h('h3', { text: 'To measure again' }), h('pre', { text: page.commands.join('\n') })] : '');
}

// watch shows the progress of a run and redraws its figures and rows when there are more.
function watch(host, figures, rows, asked, place, info) {
  let drawn = -1, busy = false;
  const refresh = async (state) => {
    if (busy || state.rows === drawn) return;
    busy = true;
    try {
      const page = await api('run', asked);
      drawn = state.rows;
      drawFigures(figures, page, asked);
      if (place.rows === 0) await drawRows(rows, asked, place);
      document.getElementById('verdict').replaceWith(verdict(page));
      document.getElementById('chips').replaceWith(chips(page.info));
    } catch (error) { say(error.message); } finally { busy = false; }
  };
  return follow({ run: asked.run }, { state: (state, source) => {
    const open = [...host.querySelectorAll('details')].map((d) => d.open);
    host.replaceChildren(progress(state, info));
    [...host.querySelectorAll('details')].forEach((d, i) => { if (i < open.length) d.open = open[i]; });
    if (state.outcome !== 'running') {
      source.close();
      say(`The run is ${state.outcome}`);
      host.append(h('p', { class: 'notice' }, `The run is ${state.outcome}. `, link('Show the complete run', '/run', { run: asked.run })));
    }
    refresh(state);
  } });
}

function progress(state) {
  const left = state.remaining === undefined || state.remaining === null ? '' : `, about ${duration(state.remaining)} left`;
  return h('section', { class: 'verdict live', id: 'live', 'aria-label': 'Running' },
    h('h2', { text: state.outcome === 'running' ? 'Running' : `This run is ${state.outcome}` }),
    state.planned ? h('progress', { max: state.planned, value: state.done, 'aria-label': `${state.done} of ${state.planned} points` }) : '',
    h('p', {}, h('b', { text: state.planned ? `${state.done} of ${state.planned} points` : plural(state.done, 'point') }),
      ` after ${duration(state.elapsed)}${left}; ${state.ok} ok, ${state.failed} failed`),
    (state.current || []).map((c) => h('p', {}, 'Now: ', h('b', { text: c.point }), c.trial ? ` (trial ${c.trial})` : '', `, since ${duration(c.seconds)}`)),
    state.ranks?.length ? h('details', { open: true }, h('summary', { text: `Output of ${plural(state.ranks.length, 'rank')}${state.launch ? ` in ${state.launch}` : ''}` }),
      h('div', { class: 'ranks' }, state.ranks.map((r) => h('div', {}, h('h3', { text: r.name }), h('pre', { text: r.text }))))) : '',
    state.failures?.length ? [h('h3', { text: 'Latest failures' }), state.failures.map(failure)] : '');
}
