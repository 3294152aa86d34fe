// Pools, and the objects of a pool, page by page.
import { el, get, param, link, endpoint, render, section, card, list, sizes, date, field, form, button, objectLink, problem, several, about, bytes } from './common.js';
import { objectPage } from './object.js';

const pool = param('pool'), namespace = param('namespace'), prefix = param('prefix');

async function pools() {
  const { pools: names } = await get('pools');
  const build = el('p', { class: 'soft small' }, 'Benthic ' + (await about).benthic);
  if (!names.length) return [card(el('p', {}, 'The store has no pools. ', el('code', {}, 'benthic pool create NAME'), ' creates one.')), build];
  return [section('Pools', el('ul', { class: 'tiles' }, names.map((name) => el('li', {}, el('a', { href: link('', { pool: name }) }, name))))), build];
}

function path() {
  const parts = [el('li', {}, el('a', { href: link('') }, 'Pools')), el('li', {}, el('a', { href: link('', { pool, namespace }) }, namespace ? pool + ':' + namespace : pool))];
  if (param('folders')) {
    let at = '';
    for (const part of prefix.split('/').slice(0, -1)) {
      at += part + '/';
      parts.push(el('li', {}, el('a', { href: link('', { pool, namespace, prefix: at, folders: true }) }, part || '/')));
    }
  }
  const object = param('object');
  if (object) parts.push(el('li', { 'aria-current': 'page' }, object));
  return el('nav', { 'aria-label': 'Path', class: 'path' }, el('ol', {}, parts));
}

function search() {
  const names = field('Names that begin with', 'input', { type: 'search', value: prefix, spellcheck: 'false', autocomplete: 'off' });
  const space = field('Namespace', 'input', { type: 'text', value: namespace, placeholder: 'default', spellcheck: 'false', autocomplete: 'off', disabled: Boolean(param('all_namespaces')) });
  const all = field('All namespaces', 'input', { type: 'checkbox', checked: Boolean(param('all_namespaces')) });
  const folders = field('As folders', 'input', { type: 'checkbox', checked: Boolean(param('folders')) });
  all.input.addEventListener('change', () => { space.input.disabled = all.input.checked; });
  const go = () => {
    const every = all.input.checked;
    location.href = link('', { pool, namespace: every ? '' : space.input.value, all_namespaces: every, prefix: names.input.value, folders: !every && folders.input.checked });
  };
  return form(go, el('div', { class: 'fields' }, names.node, space.node, el('button', { type: 'submit', class: 'primary' }, 'Show')),
    el('div', { class: 'checks' }, all.node, folders.node));
}

function upload() {
  const file = field('File', 'input', { type: 'file', required: true });
  const name = field('Name of the object', 'input', { type: 'text', required: true, spellcheck: 'false', value: prefix });
  const replace = field('Replace an object of this name', 'input', { type: 'checkbox' });
  const state = el('div', { role: 'status', class: 'small' });
  file.input.addEventListener('change', () => {
    const chosen = file.input.files[0];
    if (chosen && (name.input.value === '' || name.input.value.endsWith('/'))) name.input.value += chosen.name;
  });
  // fetch reports no progress of an upload.
  const send = () => {
    const chosen = file.input.files[0], request = new XMLHttpRequest();
    const bar = el('progress', { max: '1', value: '0', 'aria-label': 'Upload' });
    state.replaceChildren(bar, ' ', button('Cancel', () => request.abort()));
    request.upload.addEventListener('progress', (event) => { if (event.lengthComputable) bar.value = event.loaded / event.total; });
    request.addEventListener('abort', () => state.replaceChildren('Cancelled; nothing was stored.'));
    request.addEventListener('error', () => state.replaceChildren(problem({ kind: 'unavailable', message: 'the upload broke off; nothing was stored' })));
    request.addEventListener('load', () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* the status says enough */ }
      if (request.status !== 200) {
        state.replaceChildren(problem(answer.error || { kind: 'internal', message: 'the console answered with status ' + request.status }));
        return;
      }
      state.replaceChildren('Stored ', bytes(answer.size_bytes), ' as ', objectLink(pool, { namespace, object: name.input.value }), '.');
    });
    request.open('PUT', endpoint('object/data', { pool, namespace, object: name.input.value, replace: replace.input.checked }));
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.send(chosen);
  };
  return section('Upload', form(send, el('div', { class: 'fields' }, file.node, name.node, el('button', { type: 'submit' }, 'Upload')), el('div', { class: 'checks' }, replace.node)), state);
}

async function objects() {
  const console = await about;
  const isAll = Boolean(param('all_namespaces'));
  const at = { pool, namespace, all_namespaces: isAll, prefix, delimiter: param('folders') ? '/' : '', after: param('after') };
  const page = await get('objects', at);
  // The prefix may end within the name of a folder.
  const inFolder = (name) => name.slice(prefix.lastIndexOf('/') + 1) || name;
  const folders = page.prefixes.map((name) => [el('a', { class: 'folder', href: link('', { pool, namespace, prefix: name, folders: true }) }, inFolder(name)), '', '']);
  const named = (one) => (param('folders') ? inFolder(one.object) : one.object);
  const rows = page.objects.map((one) => [
    el('span', {}, isAll && one.namespace ? el('span', { class: 'soft' }, one.namespace + ' / ') : null, objectLink(pool, one, named(one))),
    one.error ? el('span', { class: 'bad state' }, one.error) : sizes(one.size_bytes), one.error ? '' : el('span', { class: 'kept' }, date(one.modified_unix_ns))]);
  const shownRows = [...folders, ...rows];
  const pages = el('div', { class: 'actions' },
    param('after') ? el('a', { class: 'button', href: link('', { ...at, after: '', delimiter: '', folders: param('folders') }) }, 'First page') : null,
    page.next ? el('a', { class: 'button', rel: 'next', href: link('', { ...at, after: page.next, delimiter: '', folders: param('folders') }) }, 'Next page') : null);
  const incomplete = page.incomplete ? el('p', { class: 'notice' }, 'The search took 2 seconds and is not complete. The next page continues it.') : null;
  // A cluster lists names in the order of a hash.
  const isPart = console.engine === 'ceph' && param('folders') && (page.next || param('after'));
  const part = isPart ? el('p', { class: 'notice' }, 'A cluster lists names in no order. This page has the folders and objects among a part of the names; other pages can have the same folders.') : null;
  return [
    section('Objects of ' + pool, search(), incomplete, part,
      shownRows.length ? list([['Name', 'text'], ['Size'], ['Changed (UTC)']], shownRows) : el('p', { class: 'soft', role: 'status' }, page.next ? 'No objects on this page.' : 'No objects here.'),
      el('div', { class: 'row' }, el('p', { class: 'soft small' }, several(rows.length, 'object') + (folders.length ? ', ' + several(folders.length, 'folder') : '') + (page.next ? ' on this page' : '')), pages)),
    console.writable && !isAll ? upload() : null,
  ];
}

render(async () => {
  if (!pool) return pools();
  if (param('object')) {
    document.title = param('object') + ' · benthic console';
    return [path(), await objectPage(pool, namespace, param('object'))];
  }
  return [path(), await objects()];
});
