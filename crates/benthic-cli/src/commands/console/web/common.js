// The shared parts of the console's pages: requests, errors, links and the bar at the top.
import { el, byId, put, shown, bytes, table } from './elements.js';

export * from './elements.js';

export const query = new URLSearchParams(location.search);
export const param = (name) => query.get(name) || '';

export class Failed extends Error {
  constructor(error) {
    super(error.message);
    this.kind = error.kind;
    this.context = error.context || {};
  }
}

const address = (path, parameters) => {
  const set = Object.entries(parameters || {}).filter(([, value]) => value !== '' && value !== null && value !== undefined && value !== false);
  const text = new URLSearchParams(set.map(([name, value]) => [name, value === true ? '1' : String(value)])).toString();
  return path + (text ? '?' + text : '');
};

// The address of an endpoint.
export const endpoint = (name, parameters) => address('api/' + name, parameters);
// The address of a page of the console.
export const link = (page, parameters) => address(page || './', parameters);

async function answerOf(response) {
  if (response.status === 401) {
    location.reload();
    return new Promise(() => {});
  }
  if (response.ok) return response.json();
  const answer = await response.json().catch(() => null);
  throw new Failed(answer && answer.error ? answer.error : { kind: 'internal', message: 'the console answered with status ' + response.status });
}

async function ask(url, options) {
  try {
    return await answerOf(await fetch(url, options));
  } catch (error) {
    if (error instanceof Failed || error.name === 'AbortError') throw error;
    throw new Failed({ kind: 'unavailable', message: 'the console does not answer (' + error.message + '); is it still running?' });
  }
}

export const get = (name, parameters, signal) => ask(endpoint(name, parameters), { signal });
export const remove = (name, parameters) => ask(endpoint(name, parameters), { method: 'DELETE' });
export const post = (name, body, signal) => ask(endpoint(name), {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal,
});

// An error, with its subject.
export function problem(error) {
  const about = Object.entries(error.context || {}).map(([key, value]) => key + ': ' + value).join(', ');
  return el('div', { class: 'notice bad', role: 'alert' },
    el('p', {}, el('b', {}, String(error.kind || 'error').replaceAll('_', ' ')), ' ', error.message),
    about ? el('p', { class: 'soft small' }, about) : null);
}

// Shows the result of `make` in the content of the page, or its error.
export async function render(make) {
  try {
    put('content', await make());
  } catch (error) {
    put('content', problem(error));
    if (!(error instanceof Failed)) throw error;
  }
}

// Fills a section with the result of a request, or with its error.
export function later(node, make) {
  node.replaceChildren(el('p', { class: 'soft', role: 'status' }, 'Loading…'));
  make().then((made) => node.replaceChildren(...[made].flat(9).filter((child) => child)), (error) => node.replaceChildren(problem(error)));
  return node;
}

export const section = (title, ...children) => el('section', { 'aria-label': title }, el('h2', {}, title), ...children);
export const card = (...children) => el('section', {}, ...children);
export const date = (unixNs) => new Date(Number(unixNs) / 1e6).toISOString().slice(0, 19).replace('T', ' ');
export const dateOfMs = (unixMs) => date(Number(unixMs) * 1e6);

// Several lines of text in a box that scrolls.
export function box(text, label) {
  const node = el('pre', { tabindex: 0, role: 'region', 'aria-label': label, class: 'box' });
  node.textContent = text.split('\n').map((line) => line.split('\t').map(shown).join('\t')).join('\n');
  return node;
}

// Bytes from the interface: `key` has text, `key_hex` has hexadecimal.
export const bytesOf = (fields, key) => (fields[key] !== undefined ? { text: fields[key] } : { hex: fields[key + '_hex'] });
export function short(fields, key) {
  const { text, hex } = bytesOf(fields, key);
  const value = text !== undefined ? text : '0x' + hex;
  return el('span', { class: text !== undefined ? 'value' : 'value mono' }, value.length > 300 ? value.slice(0, 300) + '…' : value);
}

// Hexadecimal as lines of 16 bytes, with the characters beside them.
export function dump(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const pairs = hex.slice(at, at + 32).match(/../g) || [];
    const characters = pairs.map((pair) => { const code = parseInt(pair, 16); return code >= 32 && code < 127 ? String.fromCharCode(code) : '.'; }).join('');
    lines.push((at / 2).toString(16).padStart(8, '0') + '  ' + pairs.join(' ').padEnd(47) + '  ' + characters);
  }
  return lines.join('\n');
}

export const textToHex = (text) => [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('');

let fields = 0;
// A labelled input. `make` gets the attributes that tie it to its label.
export function field(label, tag, attributes, ...children) {
  fields += 1;
  const id = 'field-' + fields;
  const input = el(tag, { id, ...attributes }, ...children);
  const node = attributes && attributes.type === 'checkbox'
    ? el('div', { class: 'check' }, input, el('label', { for: id }, label))
    : el('div', { class: 'field' }, el('label', { for: id }, label), input);
  return { node, input };
}

export function form(onSubmit, ...children) {
  const node = el('form', {}, ...children);
  node.addEventListener('submit', (event) => { event.preventDefault(); onSubmit(); });
  return node;
}

export function button(label, onClick, kind) {
  const node = el('button', { type: 'button', class: kind || null }, label);
  node.addEventListener('click', onClick);
  return node;
}

// A choice of the pools of the store; `onChange` gets the name.
export async function poolField(chosen, onChange, withAll) {
  const { pools } = await get('pools');
  const names = pools.includes(chosen) || !chosen ? pools : [chosen, ...pools];
  const { node, input } = field('Pool', 'select', {}, withAll ? el('option', { value: '' }, 'all pools') : el('option', { value: '', disabled: true }, 'choose a pool'),
    names.map((name) => el('option', { value: name, selected: name === chosen }, name)));
  if (!chosen) input.value = '';
  input.addEventListener('change', () => onChange(input.value));
  return node;
}

// The programs that answer for a page, and how to get them.
const PROGRAMS = {
  sql: ['benthic-sql', 'make sql', 'Tables and queries'],
  array: ['benthic-array', 'make array', 'Arrays'],
  s3: ['benthic-s3', 'make s3', 'Buckets'],
};
export function missing(name) {
  const [program, make, what] = PROGRAMS[name];
  return el('div', { class: 'notice' }, el('p', {}, what + ' need the program ', el('code', {}, program), ', which is not installed beside ', el('code', {}, 'benthic'), '.'),
    el('p', {}, 'In a checkout, ', el('code', {}, make), ' builds it; then load this page again.'));
}

export const objectLink = (pool, one, text) => el('a', { href: link('', { pool, namespace: one.namespace, object: one.object }) }, text || one.object);
export const sizes = (value) => el('span', { class: 'kept', title: value === undefined ? null : value + ' bytes' }, bytes(value));
export const list = (heads, rows, kind) => el('div', { class: 'scroll-x' }, table(heads, rows, kind || 'cards'));

// The facts about the console, once for the page.
export const about = get('console').then((answer) => {
  byId('mode').replaceChildren(el('span', { class: 'tag ' + (answer.writable ? 'warn' : 'ok') }, answer.writable ? 'may change data' : 'read-only'), ' ', el('span', { class: 'store', title: shown(answer.store) }, answer.store));
  return answer;
});
about.catch(() => {});
byId('sign-out').addEventListener('click', () => { fetch('api/sign-out', { method: 'POST' }).finally(() => location.reload()); });
