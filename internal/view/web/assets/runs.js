// The first page: all runs of the folder in groups, the latest first.
import { h, say } from './dom.js';
import { api, follow, go, link, query, remember } from './app.js';
import { sparkline } from './spark.js';
import { bytes, chip, counts, duration, plural, quality, select, state, time } from './words.js';

// The ways to group runs: a name for the page, the key of a run, and the title and subtitle of its group. A run with
// several tags is in the group of each.
const groupings = {
  bench: ['bench', (r) => `${r.folder}\n${r.bench}`, (r) => r.bench || '(no name)', (r) => r.folder],
  folder: ['folder', (r) => r.folder, (r) => r.folder, () => ''],
  host: ['host', (r) => r.host, (r) => r.host || '(unknown host)', () => ''],
  commit: ['commit', (r) => r.commit || '', (r) => r.commit || '(no commit)', () => ''],
  tag: ['tag', (r, tag) => tag || '', (r, tag) => tag || '(no tag)', () => ''],
  none: ['nothing', (r) => r.run, (r) => r.bench || '(no name)', (r) => r.folder],
};

// The columns: a heading, the key to sort by, and a class. Words sort upwards first, numbers and times downwards.
const columns = [
  ['bench', 'Bench', (r) => r.bench.toLowerCase(), ''], ['outcome', 'Outcome', (r) => -(r.failed + (r.lost || 0)) * 1e6 - r.missing, ''],
  ['result', 'Result', (r) => r.number?.value ?? -Infinity, 'num wide'], ['', 'Trend', null, 'wide'],
  ['', 'Against the run before', null, 'wide'], ['quality', 'Quality', (r) => (r.ok ? r.disturbed / r.ok : -1), 'wide'],
  ['start', 'Started', (r) => Date.parse(r.start) || 0, 'wide'], ['host', 'Host, commit', (r) => `${r.host} ${r.commit}`.toLowerCase(), 'wide'],
];
const firstRuns = 20; // of an open group, before "Show all"

export async function runsPage(body) {
  document.title = 'Runs · kernbench';
  let list = await api('runs', {});
  document.getElementById('folder').textContent = list.dir;
  const chosen = new Set(), opened = new Set(query().getAll('open')), whole = new Set();
  const count = h('p', { class: 'soft', id: 'count' }), pending = h('div'), problems = h('div'), table = h('table', { class: 'runs' });
  const compare = h('button', { type: 'button', class: 'main', id: 'compare', text: 'Compare', disabled: true,
    on: { click: () => go('/compare', list.runs.map((r) => r.run).filter((r) => chosen.has(r)).reverse().map((r) => ['run', r])) } });
  const field = h('input', { type: 'search', value: query().get('q') || '', placeholder: 'bench, host, commit, tag:name, disturbed, -words to leave out…',
    on: { input: () => { remember({ q: field.value }); draw(); } } });
  const tags = (r) => taglist(r, (tag) => { field.value = `tag:${tag}`; remember({ q: field.value }); draw(); });
  const grouping = () => groupings[query().get('group')] || groupings.bench;

  function draw() {
    const focused = document.activeElement?.dataset?.key;
    const shown = list.runs.filter(matches(field.value));
    const groups = grouped(shown, grouping(), query().get('sort') || '-start');
    count.textContent = [plural(shown.length, 'run') + (shown.length < list.runs.length ? ` of ${list.runs.length.toLocaleString('en')}` : ''),
      groups.length < shown.length ? plural(groups.length, 'group') : ''].filter(Boolean).join(' in ') +
      (list.cut ? '; not all journals are shown: open a subfolder' : '');
    pending.replaceChildren(list.pending ? reading(list.pending) : '');
    problems.replaceChildren(unread(list.problems || []));
    table.replaceChildren(head(), ...groups.map(rowsOf));
    if (focused) table.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  function head() {
    const sort = query().get('sort') || '-start';
    return h('thead', {}, h('tr', {}, h('th', {}, h('span', { class: 'unseen', text: 'Choose' })), columns.map(([name, title, key, of]) => {
      if (!key) return h('th', { scope: 'col', class: of, text: title });
      const way = sort === name ? 'ascending' : sort === '-' + name ? 'descending' : null;
      const next = way === 'descending' || (!way && ['bench', 'host'].includes(name)) ? name : '-' + name;
      return h('th', { scope: 'col', class: of || null, 'aria-sort': way }, h('button', { type: 'button', 'data-key': `sort ${name}`,
        text: title + (way ? (way === 'ascending' ? ' ↑' : ' ↓') : ''), on: { click: () => { remember({ sort: next }); draw(); } } }));
    })));
  }

  // rowsOf returns a group: a line for its latest run, and below it all its runs if it is open.
  function rowsOf(g) {
    const latest = g.runs[0];
    if (g.runs.length === 1) return h('tbody', {}, line(latest, null, h('td', {}, runLink(latest, g.title), g.sub ? h('div', { class: 'soft small', text: g.sub }) : '', brief(latest), tags(latest), notes(latest))));
    const open = opened.has(g.key), rows = open ? (whole.has(g.key) ? g.runs : g.runs.slice(0, firstRuns)) : [];
    const toggle = h('button', { type: 'button', class: 'fold', 'aria-expanded': String(open), 'data-key': `open ${g.key}`,
      text: `${open ? '▾' : '▸'} ${plural(g.runs.length, 'run')}`, on: { click: () => {
        if (open) opened.delete(g.key); else opened.add(g.key);
        rememberOpen(opened);
        draw();
      } } });
    const top = h('tr', { class: g.runs.some((r) => r.outcome === 'running') ? 'group live' : 'group', 'data-group': g.key },
      h('td', {}), h('td', {}, runLink(latest, g.title), g.sub ? h('div', { class: 'soft small', text: g.sub }) : '', h('div', {}, toggle), brief(latest), open ? '' : tags(latest)),
      cells(latest, h('td', { class: 'wide' }, g.comparable ? sparkline(g.runs) : ''), h('td', { class: 'wide wrap' }, against(latest, g.comparable))));
    return h('tbody', {}, top, rows.map((r, i) => line(r, g.runs[i + 1], h('td', { class: 'inner' }, runLink(r, time(r.start) || r.id), brief(r), tags(r), notes(r)), g.comparable)),
      rows.length && rows.length < g.runs.length ? h('tr', {}, h('td'), h('td', { colspan: columns.length, class: 'inner' }, h('button', { type: 'button', 'data-key': `all ${g.key}`,
        text: `Show all ${g.runs.length.toLocaleString('en')} runs`, on: { click: () => { whole.add(g.key); draw(); } } }))) : '');
  }

  // line returns the row of one run. before is the run before it in its group.
  function line(r, before, name, comparable) {
    const box = h('input', { type: 'checkbox', checked: chosen.has(r.run), 'data-key': `choose ${r.run}`, 'aria-label': `Choose ${r.bench} of ${time(r.start)} to compare`,
      on: { change: () => {
        if (box.checked) chosen.add(r.run); else chosen.delete(r.run);
        for (const same of table.querySelectorAll(`[data-key="${CSS.escape(box.dataset.key)}"]`)) same.checked = box.checked;
        compare.disabled = chosen.size < 2 || chosen.size > 8;
        compare.textContent = chosen.size < 2 ? 'Compare' : chosen.size > 8 ? 'At most 8' : `Compare ${chosen.size} runs`;
      } } });
    const change = comparable && before?.number && r.number && before.number.set === r.number.set && before.number.metric === r.number.metric
      ? signed(100 * (r.number.value / before.number.value - 1)) + (before.disturbed || r.disturbed ? ' (disturbed)' : '') : '';
    return h('tr', { class: r.outcome === 'running' ? 'live' : null, 'data-run': r.run }, h('td', {}, box), name,
      cells(r, h('td', { class: 'wide' }), h('td', { class: 'wide soft', text: change })));
  }

  // cells returns what the line of a run and of a group have in common.
  const cells = (r, trend, verdict) => [
    h('td', {}, h('div', { class: 'chips' }, chip(r.outcome, state(r)), counts(r)), h('div', { class: 'narrow' }, quality(r))),
    h('td', { class: 'num wide' }, r.number ? [r.number.text, h('div', { class: 'soft small', text: r.number.metric,
      title: `the geometric mean over ${plural(r.number.points, 'point')}` })] : ''),
    trend, verdict, h('td', { class: 'wide' }, quality(r)),
    h('td', { class: 'wide' }, time(r.start), h('div', { class: 'soft small', text: r.seconds ? `for ${duration(r.seconds)}` : '' })),
    h('td', { class: 'wide' }, r.host, h('div', { class: 'soft mono', text: r.commit || '' }))];

  body.append(h('div', { class: 'full' }, h('h1', { text: 'Runs' }), count, pending, problems,
    h('div', { class: 'bar' }, h('label', { class: 'grow', text: 'Find' }, field),
      select('Group by', Object.entries(groupings).map(([value, [text]]) => [value, text]), query().get('group') || 'bench', (v) => { remember({ group: v === 'bench' ? '' : v }); draw(); }), compare),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Runs' }, table),
    h('p', { class: 'soft small', text: 'Result: the geometric mean over the points of a run, each with the median of its undisturbed trials. Trend: the results of the latest runs with the same points; hollow where some row was disturbed.' })));
  draw();
  return follow({}, { runs: (now) => {
    if (JSON.stringify(now) === JSON.stringify(list)) return;
    if (now.runs.length !== list.runs.length) say(plural(now.runs.length, 'run'));
    list = now;
    draw();
  } });
}

const runLink = (r, text) => link(text, '/run', { run: r.run }, { 'data-key': `run ${r.run} ${text}` });

// signed writes a change in percent.
const signed = (v) => `${v.toFixed(1).replace('-0.0', '0.0').replace('-', '−').replace(/^(?=[1-9]|0\.[1-9])/, '+')} %`;

const notes = (r) => (r.notes || []).map((text) => h('div', { class: 'soft small note', text }));

// taglist shows the tags of a run. A click shows only the runs with a tag.
export const taglist = (r, choose) => (r.tags?.length ? h('div', { class: 'tags' }, r.tags.map((tag) => h('button', { type: 'button', class: 'tag',
  title: `Only runs with the tag ${tag}`, text: tag, 'data-key': `tag ${r.run} ${tag}`, on: { click: () => choose(tag) } }))) : '');

// brief repeats the result on narrow screens, which have no room for its column.
const brief = (r) => h('div', { class: 'narrow soft small brief' }, [r.number?.text, time(r.start)].filter(Boolean).map((text) => h('span', { text })));

// matches returns a filter by words: a run must contain each word, or not contain it after a minus. tag:NAME matches
// a whole tag.
function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter((w) => w && w !== '-');
  return (r) => {
    const all = [...(r.tags || []), r.bench, r.host, r.backend, r.outcome, r.folder, r.id, r.commit, time(r.start), r.disturbed ? 'disturbed' : '', r.failed ? 'failed' : '', r.lost ? 'lost' : '',
      r.missing ? 'missing' : '', r.computed ? 'computed' : '', ...(r.notes || [])].join(' ').toLowerCase();
    const tags = (r.tags || []).map((t) => `tag:${t.toLowerCase()}`);
    const has = (w) => (w.startsWith('tag:') ? tags.includes(w) : all.includes(w));
    return words.every((w) => (w[0] === '-' ? !has(w.slice(1)) : has(w)));
  };
}

// grouped returns the groups in order. Runs within a group are the latest first, unless another order is chosen.
function grouped(runs, [, key, title, sub], sort) {
  const of = columns.find(([name]) => name && name === sort.replace(/^-/, '')) || columns.find(([name]) => name === 'start');
  const sign = sort[0] === '-' ? -1 : 1, compared = (a, b) => (a < b ? -sign : a > b ? sign : 0);
  const groups = new Map();
  for (const r of runs) {
    for (const tag of key === groupings.tag[1] && r.tags?.length ? r.tags : [null]) {
      const k = key(r, tag);
      if (!groups.has(k)) groups.set(k, { key: k, title: title(r, tag), sub: sub(r), runs: [] });
      groups.get(k).runs.push(r);
    }
  }
  const out = [...groups.values()].sort((a, b) => compared(of[2](a.runs[0]), of[2](b.runs[0])));
  for (const g of out) {
    g.comparable = g.runs.every((r) => r.folder === g.runs[0].folder && r.bench === g.runs[0].bench) && of[0] === 'start';
    if (of[0] !== 'start') g.runs.sort((a, b) => compared(of[2](a), of[2](b)));
  }
  return out;
}

// against describes how the latest run compares with the one before it, with links to both views.
function against(r, comparable) {
  if (!comparable) return '';
  const v = r.verdict;
  return [v ? link(v.summary, '/compare', [['run', v.before], ['run', r.run]], { class: v.worse ? 'worse' : v.better ? 'better' : null }) : '',
    v ? ' · ' : '', link('history', '/history', { run: r.run }, { title: 'All runs of this bench, with changes of level' })];
}

function reading(p) {
  const names = p.journals.join(', ') + (p.more ? ` and ${p.more.toLocaleString('en')} more` : '');
  const text = `Reading journals: ${bytes(p.read)} of ${bytes(p.bytes)}. Runs appear as they are read. Not read yet: ${names}`;
  return h('div', { class: 'notice calm', id: 'pending' }, h('progress', { max: p.bytes, value: p.read, 'aria-label': 'Bytes of the journals that are read' }), h('div', { text }));
}

function unread(list) {
  if (!list.length) return '';
  return h('details', { class: 'notice bad', open: list.length < 6, id: 'problems' },
    h('summary', { text: `${plural(list.length, 'folder')} with journals that cannot be read, or not completely` }),
    h('ul', {}, list.map((p) => h('li', {}, h('b', { text: p.folder }), `: ${p.reason}`))));
}

function rememberOpen(opened) {
  const q = query();
  q.delete('open');
  for (const key of opened) q.append('open', key);
  history.replaceState(null, '', location.pathname + (q.size ? '?' + q : ''));
}
