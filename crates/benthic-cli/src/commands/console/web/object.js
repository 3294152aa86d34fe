// One object: its details, a preview, its attributes and its omap.
import { el, get, remove, section, card, list, sizes, date, box, dump, short, bytesOf, field, form, button, link, endpoint, later, problem, missing, several, count, about } from './common.js';
import { rowsTable } from './rows.js';

const identity = (one) => ({ pool: one.pool, namespace: one.namespace, object: one.object });
const KINDS = { empty: 'no data', png: 'PNG image', jpeg: 'JPEG image', gif: 'GIF image', webp: 'WebP image', parquet: 'Parquet', text: 'text', binary: 'binary data' };

// The address of the array whose metadata the object has.
function arrayOf(one, text) {
  const [, path, file] = /^(.+)\/(zarr\.json|\.zarray)$/.exec(one.object) || [];
  if (!path) return null;
  try {
    if (file === 'zarr.json' && JSON.parse(text).node_type !== 'array') return null;
  } catch { return null; }
  return one.pool + (one.namespace ? ':' + one.namespace : '') + '/' + path;
}

function preview(one, programs) {
  const at = identity(one);
  if (one.kind === 'empty') return el('p', { class: 'soft' }, 'The object has no data.');
  if (['png', 'jpeg', 'gif', 'webp'].includes(one.kind)) {
    const image = el('img', { src: endpoint('object/image', at), alt: 'The image in ' + one.object, class: 'preview' });
    image.addEventListener('error', () => image.replaceWith(el('p', { class: 'notice' }, 'The browser cannot show this image; download it.')));
    return image;
  }
  if (one.kind === 'parquet') {
    if (!programs.sql) return missing('sql');
    return later(el('div', {}), async () => {
      const answer = await get('object/parquet', at);
      return [el('h3', {}, 'Schema'), list([['Column', 'text'], ['Type', 'text'], ['Nulls', 'text']], answer.schema.map((column) => [column.column_name, column.data_type, column.is_nullable])),
        el('h3', {}, 'First rows'), rowsTable(answer)];
    });
  }
  return later(el('div', {}), async () => {
    const answer = await get('object/text', at);
    const { text, hex } = bytesOf(answer, 'text'), array = arrayOf(one, text);
    return [answer.truncated ? el('p', { class: 'soft small' }, 'The first 64 KiB.') : null, box(text !== undefined ? text : dump(hex), 'Content'),
      array ? el('div', { class: 'actions' }, el('a', { class: 'button', href: link('arrays', { pool: one.pool, array }) }, 'Show the array')) : null];
  });
}

function attributes(one) {
  if (!one.xattrs.length) return el('p', { class: 'soft' }, 'The object has no attributes.');
  const rows = one.xattrs.map((xattr) => [el('span', { class: 'mono' }, xattr.name), sizes(xattr.size_bytes), short(xattr, 'value')]);
  return [list([['Name', 'text'], ['Size'], ['Value', 'text']], rows),
    one.xattrs_total > one.xattrs.length ? el('p', { class: 'soft small' }, 'The first ' + count(one.xattrs.length) + ' of ' + count(one.xattrs_total) + '.') : null];
}

function omap(one) {
  const rows = [], body = el('div', {}), state = el('p', { class: 'soft small', role: 'status' });
  let next = '';
  const { node, input } = field('Keys that begin with', 'input', { type: 'text', spellcheck: 'false' });
  async function load(isNew) {
    if (isNew) { rows.length = 0; next = ''; }
    try {
      const page = await get('object/omap', { ...identity(one), prefix: input.value, after: next });
      rows.push(...page.entries.map((entry) => [short(entry, 'key'), sizes(entry.size_bytes), short(entry, 'value')]));
      next = page.next;
      state.textContent = several(rows.length, 'entry').replace('entrys', 'entries') + (next ? ' so far' : '');
      body.replaceChildren(...(rows.length ? [list([['Key', 'text'], ['Size'], ['Value', 'text']], rows)] : []), ...(next ? [button('More entries', () => load(false))] : []));
    } catch (error) {
      body.replaceChildren(problem(error));
    }
  }
  load(true);
  return [form(() => load(true), el('div', { class: 'fields' }, node, el('button', { type: 'submit' }, 'Show'))), body, state];
}

export async function objectPage(pool, namespace, object) {
  const [one, console] = [await get('object', { pool, namespace, object }), await about];
  const at = identity(one);
  const facts = [
    ['Pool', el('a', { href: link('', { pool }) }, pool)],
    one.namespace ? ['Namespace', el('a', { href: link('', { pool, namespace: one.namespace }) }, one.namespace)] : null,
    ['Size', el('span', {}, sizes(one.size_bytes), el('span', { class: 'soft' }, ' (' + count(one.size_bytes) + ' bytes)'))],
    ['Changed', date(one.modified_unix_ns) + ' UTC'],
    ['Version', count(one.version)],
    ['Content', KINDS[one.kind] || one.kind],
    one.striped ? ['First object of', el('span', {}, 'the striped object ', el('b', {}, one.striped.object), ', ', sizes(one.striped.size_bytes), ' in ' + several(one.striped.pieces, 'piece'))] : null,
  ].filter((fact) => fact);
  const removal = () => {
    const sure = el('div', { class: 'notice bad' }, el('p', {}, 'Delete ', el('b', {}, one.object), '? This cannot be undone.'),
      el('div', { class: 'actions' }, button('Delete', async () => {
        try {
          await remove('object', at);
          location.href = link('', { pool, namespace: one.namespace });
        } catch (error) { sure.replaceChildren(problem(error)); }
      }, 'danger'), button('Keep', () => sure.replaceWith(actions))));
    actions.replaceWith(sure);
    sure.querySelector('button').focus();
  };
  const actions = el('div', { class: 'actions' },
    el('a', { class: 'button primary', href: endpoint('object/data', at), download: '' }, 'Download'),
    one.striped ? el('a', { class: 'button', href: endpoint('object/data', { pool, namespace: one.namespace, object: one.striped.object, striped: true }), download: '' }, 'Download the striped object') : null,
    el('a', { class: 'button', href: link('classes', at) }, 'Call a method'),
    console.writable ? button('Delete', removal, 'danger') : null);
  return [
    card(el('h2', { class: 'name' }, one.object), el('dl', { class: 'facts' }, facts.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value)))), actions),
    section('Preview', preview(one, console.programs)),
    section('Attributes', attributes(one)),
    section('Omap', omap(one)),
  ];
}
