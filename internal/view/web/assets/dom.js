// Every text goes into the page as text: there is no other way in here, and the
// page's policy would not run what came in by one.

const NS = 'http://www.w3.org/2000/svg';

// h makes an element. Properties: class, text, on (by event), data and anything
// else as an attribute; false and null leave an attribute out.
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s is the same for a drawing.
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(NS, tag), props, children);
}

function fill(e, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') e.textContent = value;
    else if (name === 'on') for (const [event, call] of Object.entries(value)) e.addEventListener(event, call);
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ''));
  return e;
}

// say tells readers who do not see the page.
export function say(text) { document.getElementById('said').textContent = text; }

// save hands a file to the reader.
export function save(name, blob) {
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
