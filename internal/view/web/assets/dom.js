// Builds elements. Every text is inserted as text and never as HTML. The page's content
// security policy would not run scripts in a text either.

const NS = 'http://www.w3.org/2000/svg';

// h makes an HTML element. The property text is its text, on maps events to handlers, and
// all others are attributes. Attributes that are false or null are left out.
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s makes an SVG element in the same way.
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

// say announces a text to screen readers.
export function say(text) { document.getElementById('said').textContent = text; }

// save downloads a file.
export function save(name, blob) {
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
