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

// visible escapes control characters and characters that change the direction of text: a journal may come from somebody
// else, and what a reader sees must be what it says.
export function visible(text) {
  return typeof text !== 'string' ? text : text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

function fill(e, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') e.textContent = visible(value);
    else if (name === 'on') for (const [event, call] of Object.entries(value)) e.addEventListener(event, call);
    else e.setAttribute(name, value === true ? '' : ['title', 'aria-label'].includes(name) ? visible(value) : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== '').map(visible));
  return e;
}

// say announces a text to screen readers.
export function say(text) { document.getElementById('said').textContent = visible(text); }

// save downloads a file.
export function save(name, blob) {
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
