// The page: finds the view for an address and moves between views. All choices of the
// reader are in the address, so that a link shows the same view again.
import { h, say } from './dom.js';
import { runsPage } from './runs.js';
import { runPage } from './run.js';
import { bytes } from './words.js';
import { comparePage, historyPage } from './compare.js';

const pages = { '/': runsPage, '/run': runPage, '/compare': comparePage, '/history': historyPage };
const main = document.getElementById('main');
let leave = () => {}; // stops the streams of the current view
let turn = 0; // counts views, to ignore answers for a view that was left

// api fetches JSON from the server. An error has the server's message. While the server reads a large journal, it
// answers with its progress, which is shown in place of the view.
export async function api(path, query) {
  const mine = turn;
  for (;;) {
    const answer = await fetch(`/api/${path}?${new URLSearchParams(query)}`, { headers: { Prefer: 'respond-async' } });
    if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
    const data = await answer.json();
    if (answer.status !== 202) return data;
    if (mine !== turn) throw new Error('another view was opened');
    if (!document.body.dataset.ready) main.replaceChildren(waiting(data));
  }
}

// waiting shows how far the server has come.
function waiting(p) {
  const text = p.bytes ? `Reading ${p.journals.join(', ')}: ${bytes(p.read)} of ${bytes(p.bytes)}` : 'Preparing the page…';
  return h('div', { class: 'notice calm', id: 'waiting' }, h('progress', { max: p.bytes || null, value: p.bytes ? p.read : null, 'aria-label': 'Bytes of the journal that are read' }), h('div', { text }));
}

// follow subscribes to a stream of events and returns a function that closes it.
export function follow(query, events) {
  const source = new EventSource(`/api/live?${new URLSearchParams(query)}`);
  for (const [name, call] of Object.entries(events)) source.addEventListener(name, (e) => call(JSON.parse(e.data), source));
  return () => source.close();
}

export const query = () => new URLSearchParams(location.search);

// remember stores choices in the address without leaving the view.
export function remember(changes) {
  const q = query();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') q.delete(name);
    else q.set(name, value);
  }
  history.replaceState(null, '', location.pathname + (q.size ? '?' + q : ''));
}

// go shows another view.
export function go(path, values) {
  const q = new URLSearchParams(values);
  history.pushState(null, '', path + (q.size ? '?' + q : ''));
  return show();
}

// link makes a link to another view.
export function link(text, path, values, props = {}) {
  const q = new URLSearchParams(values);
  return h('a', { href: path + (q.size ? '?' + q : ''), 'data-link': true, text, ...props });
}

document.addEventListener('click', (e) => {
  const a = e.target.closest?.('a[data-link]');
  if (!a || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
  e.preventDefault();
  history.pushState(null, '', a.href);
  show();
});
addEventListener('popstate', () => show());

async function show() {
  const mine = ++turn;
  leave();
  leave = () => {};
  delete document.body.dataset.ready;
  const body = h('div');
  try {
    const end = await (pages[location.pathname] || runsPage)(body);
    if (mine !== turn) return end?.();
    leave = end || (() => {});
  } catch (error) {
    if (mine !== turn) return;
    body.replaceChildren(h('h1', { text: 'This cannot be shown' }), h('p', { class: 'notice bad', text: error.message }),
      h('p', {}, link('All runs', '/')));
  }
  main.replaceChildren(body);
  if (mine > 1) { main.focus(); scrollTo(0, 0); }
  say(document.title);
  document.body.dataset.ready = location.pathname + location.search;
}
show();
