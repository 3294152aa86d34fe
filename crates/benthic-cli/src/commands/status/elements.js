// Text, elements and numbers of the pages. Names from a store may contain anything, so text is only ever inserted as text.
const SVG = 'http://www.w3.org/2000/svg';
const opened = new Map();

// ---- text and elements ----

// Escapes invisible characters and those that change the direction of text.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
export const shown = (text) => String(text).replace(UNSEEN, (c) => '\\u{' + c.charCodeAt(0).toString(16) + '}');

export function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === '') continue;
    node.append(child instanceof Node ? child : document.createTextNode(shown(child)));
  }
  return node;
}
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
// Text between backticks is a command.
export const prose = (text) => String(text).split('`').map((part, index) => (index % 2 ? el('code', {}, part) : part));
export const byId = (id) => document.getElementById(id);
export const put = (id, ...children) => byId(id).replaceChildren(...children.flat(9).filter((child) => child));

// A fold that stays open or closed while its content changes. The content is created when the fold is first opened.
export function fold(key, summary, isOpen, content) {
  const head = el('summary', { 'data-key': key }, summary);
  const node = el('details', {}, head);
  let isMade = false;
  const make = () => { if (!isMade) { isMade = true; node.append(...[content()].flat(9).filter((child) => child)); } };
  if (opened.has(key) ? opened.get(key) : isOpen) { node.open = true; make(); }
  head.addEventListener('click', () => { opened.set(key, !node.open); make(); });
  return node;
}

export function table(heads, rows, kind) {
  const cell = (value, index) => el('td', {
    role: 'cell', class: heads[index][1] || null, 'data-label': index > 0 ? heads[index][0] : null,
  }, value instanceof Node ? value : el('span', { class: typeof value === 'string' && value.length < 14 ? 'kept' : null }, value));
  return el('table', { role: 'table', class: kind || null },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, heads.map(([name, type]) => el('th', { role: 'columnheader', scope: 'col', class: type || null }, name)))),
    el('tbody', { role: 'rowgroup' }, rows.map((row) => el('tr', { role: 'row' }, row.map(cell)))));
}

export function bar(share, text, tone) {
  const inner = el('span', {});
  inner.style.width = Math.max(0, Math.min(1, share || 0)) * 100 + '%';
  return el('span', { class: 'bar ' + (tone || '') }, el('span', { 'aria-hidden': 'true' }, inner), el('span', {}, text));
}

// ---- numbers ----

export const known = (value) => value !== null && value !== undefined;
export const count = (value) => (known(value) ? Math.round(value).toLocaleString('en') : '?');
export const several = (value, noun) => count(value) + ' ' + noun + (value === 1 ? '' : 's');
export function bytes(value) {
  if (!known(value)) return '?';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return (unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)) + ' ' + units[unit];
}
export const rate = (value) => bytes(value) + '/s';
export const operations = (value) => (value > 0 && value < 10 ? value.toFixed(1) : count(value)) + '/s';
export const ms = (value) => (known(value) ? (value < 10 ? value.toFixed(1) : Math.round(value)) + ' ms' : '?');
// Rounded down, so that 100% means exactly 100%.
export const percent = (value) => (known(value) ? String(Math.floor(value * 100) / 100) + '%' : 'not known');
export function time(seconds) {
  if (seconds < 90) return Math.round(seconds) + ' s';
  if (seconds < 5400) return Math.round(seconds / 60) + ' min';
  if (seconds < 172800) return (seconds / 3600).toFixed(1).replace(/\.0$/, '') + ' h';
  return (seconds / 86400).toFixed(1).replace(/\.0$/, '') + ' days';
}
export const utcDay = (unix) => new Date(unix * 1000).toISOString().slice(0, 10);
export const share = (used, total) => (total > 0 ? used / total : null);
export const sharePercent = (value) => (!known(value) ? '?' : value > 0 && value < 0.0005 ? '<0.1%' : (100 * value).toFixed(value < 0.1 ? 1 : 0) + '%');
export const fillTone = (value) => (value >= 0.9 ? 'bad' : value >= 0.8 ? 'warn' : '');
