// The list of all runs in the folder.
import { h, say } from './dom.js';
import { api, follow, go, link, query, remember } from './app.js';
import { chip, counts, duration, kind, plural, time } from './words.js';

export async function runsPage(body) {
  document.title = 'Runs · kernbench';
  let list = await api('runs', {});
  document.getElementById('folder').textContent = list.dir;
  const chosen = new Set();
  const count = h('p', { class: 'soft' }), rows = h('tbody');
  const compare = h('button', { type: 'button', class: 'main', id: 'compare', text: 'Compare', disabled: true,
    on: { click: () => go('/compare', list.runs.map((r) => r.run).filter((r) => chosen.has(r)).reverse().map((r) => ['run', r])) } });
  const field = h('input', { type: 'search', value: query().get('q') || '', placeholder: 'bench, host, backend, outcome, folder…',
    on: { input: () => { remember({ q: field.value }); draw(); } } });

  function draw() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = list.runs.filter((r) => {
      const text = `${r.bench} ${r.host} ${r.backend} ${r.outcome} ${r.folder} ${r.id}`.toLowerCase();
      return words.every((w) => text.includes(w));
    });
    count.textContent = plural(shown.length, 'run') + (shown.length < list.runs.length ? ` of ${list.runs.length}` : '') +
      (list.cut ? '; there are more journals than are shown here: open a folder further down' : '');
    rows.replaceChildren(...shown.map(line));
  }

  function line(r) {
    const box = h('input', { type: 'checkbox', checked: chosen.has(r.run), 'aria-label': `Choose ${r.bench} of ${time(r.start)} to compare`,
      on: { change: () => {
        if (box.checked) chosen.add(r.run); else chosen.delete(r.run);
        compare.disabled = chosen.size < 2 || chosen.size > 8;
        compare.textContent = chosen.size < 2 ? 'Compare' : chosen.size > 8 ? 'At most 8' : `Compare ${chosen.size} runs`;
      } } });
    return h('tr', { class: r.outcome === 'running' ? 'live' : null, 'data-run': r.run },
      h('td', {}, box), h('td', {}, link(r.bench || '(no name)', '/run', { run: r.run })), h('td', {}, chip(r.outcome, kind(r.outcome))),
      h('td', {}, h('span', { class: 'chips' }, counts(r))), h('td', { text: time(r.start) }), h('td', { class: 'num wide', text: r.seconds ? duration(r.seconds) : '' }),
      h('td', { class: 'wide', text: r.host }), h('td', { class: 'wide', text: r.backend }), h('td', { class: 'wide soft', text: r.folder }));
  }

  body.append(h('div', {}, h('h1', { text: 'Runs' }), count,
    ...(list.problems || []).map((text) => h('p', { class: 'notice bad', text })),
    list.runs.length ? '' : h('p', { class: 'notice', text: 'There is no journal below this folder yet. A run leaves one: kernbench run --bench memory' }),
    h('div', { class: 'bar' }, h('label', { class: 'grow', text: 'Find' }, field), compare),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Runs' }, h('table', {}, h('thead', {}, h('tr', {},
      h('th', {}, h('span', { class: 'unseen', text: 'Choose' })), ['Bench', 'Outcome', 'Points', 'Started'].map((text) => h('th', { scope: 'col', text })),
      h('th', { scope: 'col', class: 'num wide', text: 'Took' }), ['Host', 'Backend', 'Folder'].map((text) => h('th', { scope: 'col', class: 'wide', text })))), rows))));
  draw();
  return follow({}, { runs: (now) => {
    if (JSON.stringify(now) === JSON.stringify(list)) return;
    if (now.runs.length !== list.runs.length) say(plural(now.runs.length, 'run'));
    list = now;
    draw();
  } });
}
