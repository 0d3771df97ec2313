// The page of one run: its verdict, figures, failures and rows, and its progress while it is running.
import { h, say } from './dom.js';
import { api, follow, go, link, query, remember } from './app.js';
import { Chart, parseState, stateText } from './chart.js';
import { insideView } from './inside.js';
import { blocks, chip, counts, duration, evidence, kind, plural, sectionTable, select, table, time } from './words.js';

export async function runPage(body) {
  const q = query(), asked = { run: q.get('run') || '', only: q.get('only') || '', plot: q.get('plot') || '' };
  const page = await api('run', asked), info = page.info;
  document.title = `${info.bench} · ${time(info.start)} · kernbench`;
  const figures = h('div', { class: 'figures' }), live = h('div');
  const place = { rows: Number(q.get('from')) || 0, sort: q.get('sort') || '' };
  const rows = h('div');
  body.append(h('div', {},
    h('p', { class: 'soft small' }, link('All runs', '/'), ` / ${info.folder}`),
    h('h1', { text: info.bench || '(no name)' }),
    h('p', { class: 'soft', text: [time(info.start), info.host, info.backend, `run ${info.id}`].filter(Boolean).join(' · ') }),
    chips(info), live, verdict(page), ...(page.problems || []).map((text) => h('p', { class: 'notice bad', text })),
    filter(page, asked), h('section', { 'aria-label': 'Figures' }, figures), insideView(page, asked), failures(page), sections(page), evidence(page.evidence),
    h('h2', { id: 'rows', text: 'Rows' }), rows, about(page)));
  drawFigures(figures, page, asked);
  await drawRows(rows, asked, place);
  if (info.outcome !== 'running') return null;
  return watch(live, figures, rows, asked, place, info);
}

const chips = (info) => h('div', { class: 'chips', id: 'chips' }, chip(info.outcome, kind(info.outcome)), counts(info),
  info.seconds ? h('span', { class: 'soft', text: duration(info.seconds) }) : '');

function verdict(page) {
  const lead = (page.sections || []).filter((sec) => sec.lead);
  const of = page.info.failed > 0 ? 'failed' : kind(page.info.outcome);
  return h('section', { class: `verdict ${of}`, id: 'verdict', 'aria-label': 'Verdict' },
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
  const charted = (f) => (f.panels || []).every((p) => !('heat' in p) && !('diagram' in p) && (p.series || p.lines));
  host.replaceChildren(...(page.figures || []).map((f) => {
    const name = `z.${f.name}`;
    const inner = charted(f) ? h('div', { class: 'panels' }, f.panels.map((p, i) => {
      const at = i ? `${name}.${i}` : name;
      const alt = f.panels.length > 1 ? `${f.title || f.name}: ${p.title || `panel ${i + 1}`}` : f.alt;
      return new Chart(p, f.panels.length > 1 ? `${f.name}-${i + 1}` : f.name, alt, parseState(query().get(at)), (state) => remember({ [at]: stateText(state) })).element;
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

// drawRows shows a part of the table of rows. A click on a heading sorts by its column.
async function drawRows(host, asked, place) {
  const data = await api('rows', { ...asked, sort: place.sort, from: place.rows });
  const again = async (changes) => {
    Object.assign(place, changes);
    remember({ from: place.rows || null, sort: place.sort });
    try { await drawRows(host, asked, place); } catch (error) { say(error.message); }
  };
  const head = data.columns.map((c) => {
    const way = place.sort === c.name ? 'ascending' : place.sort === '-' + c.name ? 'descending' : null;
    return h('th', { scope: 'col', class: c.numeric ? 'num' : null, 'aria-sort': way }, h('button', { type: 'button', title: 'Sort by this column',
      text: c.title + (way ? (way === 'ascending' ? ' ↑' : ' ↓') : ''), on: { click: () => again({ rows: 0, sort: way === 'ascending' ? '-' + c.name : way ? '' : c.name }) } }));
  });
  const lines = data.rows.flatMap((r) => {
    const cells = r.cells.map((c, i) => h('td', { class: data.columns[i].numeric ? 'num' : null, title: c.x || null, text: c.t }));
    const line = h('tr', { class: r.status === 'failed' ? 'failed' : null }, cells,
      h('td', {}, link('history', '/history', { run: asked.run, point: r.point }, { title: 'This point over all runs' })));
    return r.reason && r.status !== 'ok' ? [line, h('tr', { class: r.status === 'failed' ? 'failed' : null }, h('td', { class: 'why', colspan: r.cells.length + 1, text: r.reason }))] : [line];
  });
  const last = data.from + data.rows.length;
  host.replaceChildren(data.constants.length ? h('p', { class: 'soft small', text: data.constants.join('  ') }) : '',
    data.total ? table([...head, h('th', {}, h('span', { class: 'unseen', text: 'History' }))], lines, { label: 'Rows' }) : h('p', { class: 'notice', text: 'No row matches.' }),
    data.note ? h('p', { class: 'soft small', text: data.note }) : '',
    h('div', { class: 'bar' }, h('span', { class: 'soft', text: data.total ? `${(data.from + 1).toLocaleString('en')} to ${last.toLocaleString('en')} of ${plural(data.total, 'row')}` : '' }),
      data.from > 0 ? h('button', { type: 'button', text: 'Previous', on: { click: () => again({ rows: Math.max(0, data.from - 200) }) } }) : '',
      last < data.total ? h('button', { type: 'button', text: 'Next', on: { click: () => again({ rows: last }) } }) : '',
      h('a', { class: 'button', href: `/api/rows.csv?${new URLSearchParams(asked)}`, download: '', text: 'All as CSV' })));
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
