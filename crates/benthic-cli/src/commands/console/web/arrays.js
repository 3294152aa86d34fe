// Arrays: their metadata and a picture.
import { el, get, param, link, endpoint, render, section, card, list, sizes, field, form, later, problem, missing, poolField, about } from './common.js';

const pool = param('pool'), name = param('array');
const shape = (one) => '(' + (one.shape || []).map((size, index) => ((one.dimensions && one.dimensions[index] ? one.dimensions[index] + '=' : '') + size)).join(', ') + ')';

function picture(one) {
  if (one.shape.length < 2) return el('p', { class: 'soft' }, 'A picture needs two dimensions. ', el('code', {}, 'benthic array read'), ' prints the values.');
  const start = param('select') || one.shape.slice(0, -2).map((_, index) => ((one.dimensions && one.dimensions[index]) || index) + '=0').join(',');
  const select = field('Part of the array', 'input', { type: 'text', value: start, spellcheck: 'false', placeholder: 'time=0' });
  const out = el('div', {});
  const draw = () => {
    const image = el('img', { src: endpoint('array/plot', { array: name, select: select.input.value }), alt: 'Means of ' + name, class: 'preview' });
    image.addEventListener('error', async () => {
      try { await get('array/plot', { array: name, select: select.input.value }); } catch (error) { image.replaceWith(problem(error)); }
    });
    out.replaceChildren(image);
  };
  draw();
  return [form(draw, el('div', { class: 'fields' }, select.node, el('button', { type: 'submit' }, 'Draw'))), out,
    el('p', { class: 'soft small' }, 'Each pixel is the mean of a block of values, computed beside the chunks.')];
}

async function details() {
  const one = await get('array', { array: name });
  const facts = [['Type', one.dtype], ['Shape', shape(one)], ['Size', sizes(one.size_bytes)], ['Chunks', JSON.stringify(one.chunk_shape)], ['Codecs', one.codecs.join(', ') || 'none'], ['Fill value', JSON.stringify(one.fill_value)], ['Format', 'Zarr version ' + one.zarr_format]];
  const attributes = Object.entries(one.attributes);
  return [
    card(el('h2', { class: 'name' }, one.array), el('dl', { class: 'facts' }, facts.map(([fact, value]) => el('div', {}, el('dt', {}, fact), el('dd', {}, value))))),
    section('Picture', picture(one)),
    section('Attributes', attributes.length ? list([['Name', 'text'], ['Value', 'text']], attributes.map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)])) : el('p', { class: 'soft' }, 'The array has no attributes.')),
  ];
}

async function arrays() {
  const choice = await poolField(pool, (chosen) => { location.href = link('arrays', { pool: chosen }); });
  if (!pool) return section('Arrays', el('div', { class: 'fields' }, choice));
  return section('Arrays', el('div', { class: 'fields' }, choice), later(el('div', {}), async () => {
    const answer = await get('arrays', { pool });
    const named = (one) => (one.node === 'array' ? el('a', { href: link('arrays', { pool, array: one.array }) }, one.array) : one.array);
    return answer.arrays.length ? list([['Name', 'text'], ['Kind', 'text'], ['Type', 'text'], ['Shape', 'text']], answer.arrays.map((one) => [named(one), one.node, one.dtype || one.message || '', one.shape ? shape(one) : '']))
      : el('p', { class: 'soft' }, 'There are no arrays in this pool.');
  }));
}

render(async () => {
  const console = await about;
  if (!console.programs.array) return card(missing('array'));
  return name ? details() : arrays();
});
