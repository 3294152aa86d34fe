// Classes, with a form for each method.
import { el, get, post, param, link, render, card, field, form, button, box, dump, bytesOf, textToHex, problem, fold, several, poolField, about, bytes, time } from './common.js';

const chosen = { pool: param('pool'), namespace: param('namespace'), object: param('object') };

function result(answer) {
  const { text, hex } = bytesOf(answer, 'output');
  let pretty = null;
  if (text !== undefined) { try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is no JSON */ } }
  const forms = [
    text !== undefined ? ['Text', () => text] : null,
    pretty !== null ? ['JSON', () => pretty] : null,
    ['Hexadecimal', () => dump(hex !== undefined ? hex : textToHex(text))],
  ].filter((one) => one);
  const out = el('div', {}), choice = el('div', { role: 'group', 'aria-label': 'Form of the result', class: 'choice' });
  const show = (index) => {
    [...choice.children].forEach((one, at) => one.setAttribute('aria-pressed', String(at === index)));
    out.replaceChildren(box(forms[index][1](), 'Result'));
  };
  choice.append(...forms.map(([name], index) => button(name, () => show(index))));
  show(pretty !== null && text.length > 1 && '[{'.includes(text.trim()[0]) ? 1 : 0);
  const took = answer.seconds < 1 ? Math.round(answer.seconds * 1000) + ' ms' : time(answer.seconds);
  return [el('div', { class: 'row' }, el('p', { class: 'soft small', role: 'status' }, bytes(answer.size_bytes) + ' in ' + took + (answer.truncated ? '; the first 1 MiB' : '')), answer.size_bytes ? choice : null),
    answer.size_bytes ? out : el('p', {}, 'The method succeeded and returned nothing.')];
}

function methodForm(one, method, isWritable) {
  const pool = field('Pool', 'input', { type: 'text', required: true, value: chosen.pool, spellcheck: 'false' });
  const object = field('Object', 'input', { type: 'text', required: true, value: chosen.object, spellcheck: 'false' });
  const space = field('Namespace', 'input', { type: 'text', value: chosen.namespace, placeholder: 'default', spellcheck: 'false' });
  const input = field('Input: ' + (method.input || 'none'), 'textarea', { rows: 2, spellcheck: 'false' });
  const hex = field('The input is hexadecimal', 'input', { type: 'checkbox' });
  const examples = method.examples.filter((example) => example).map((example) => button(example, () => { input.input.value = example; }, 'example'));
  const out = el('div', {});
  const isRefused = method.writes && !isWritable;
  const run = async () => {
    out.replaceChildren(el('p', { class: 'soft', role: 'status' }, 'Running…'));
    const call = { pool: pool.input.value, namespace: space.input.value, object: object.input.value, class: one.class, method: method.method };
    if (hex.input.checked) call.input_hex = input.input.value.trim(); else call.input = input.input.value;
    try {
      out.replaceChildren(...result(await post('exec', call)).filter((node) => node));
    } catch (error) {
      out.replaceChildren(problem(error));
    }
  };
  return [
    el('p', { class: 'soft' }, 'Returns: ' + (method.output || 'nothing') + (method.result_xattr ? '. The result is in the attribute ' + method.result_xattr + ', which the console reads.' : '.')),
    method.objects && method.objects.length ? el('p', { class: 'notice' }, 'The method needs other objects (' + method.objects.join(', ') + '); ', el('code', {}, 'benthic exec --object'), ' gives them.') : null,
    form(run, el('div', { class: 'fields' }, pool.node, space.node, object.node), input.node,
      examples.length ? el('p', { class: 'small' }, 'Examples: ', examples) : null, el('div', { class: 'checks' }, hex.node),
      el('div', { class: 'actions' }, el('button', { type: 'submit', class: 'primary', disabled: isRefused }, 'Run ' + method.method),
        isRefused ? el('span', { class: 'soft small' }, 'This console is read-only, and the method writes.') : null)),
    out,
  ];
}

function classCard(one, isWritable) {
  const flags = (method) => [method.reads ? el('span', { class: 'tag note' }, 'reads') : null, ' ', method.writes ? el('span', { class: 'tag warn' }, 'writes') : null];
  return card(el('h2', {}, one.class, ' ', one.versions ? el('span', { class: 'tag note' }, 'WebAssembly, in the pool ' + one.pool) : null),
    el('p', {}, one.summary), el('p', { class: 'soft small' }, 'version ' + one.version + ', build ' + one.build + ', ' + several(one.methods.length, 'method')),
    one.methods.map((method) => el('div', { class: 'place' }, fold(one.class + '/' + method.method, el('span', {}, el('b', {}, method.method), ' ', flags(method), ' ', el('span', { class: 'soft' }, method.summary)),
      param('class') === one.class && param('method') === method.method, () => el('div', { class: 'inner' }, methodForm(one, method, isWritable))))));
}

render(async () => {
  const console = await about;
  const pool = await poolField(chosen.pool, (name) => { location.href = link('classes', { ...chosen, pool: name }); });
  const { classes } = await get('classes', { pool: chosen.pool });
  const cards = classes.map((one) => classCard(one, console.writable));
  const filter = field('Filter', 'input', { type: 'search', placeholder: 'class or method', spellcheck: 'false' });
  filter.input.addEventListener('input', () => {
    const text = filter.input.value.toLowerCase();
    classes.forEach((one, index) => { cards[index].hidden = !JSON.stringify([one.class, one.summary, one.methods.map((method) => method.method)]).toLowerCase().includes(text); });
  });
  return [
    card(el('p', {}, 'A method runs beside one object, in the process that stores it. With a pool, the list also has the classes that are deployed to it.'), el('div', { class: 'fields' }, pool, filter.node),
      chosen.object ? el('p', { class: 'soft' }, 'The forms are filled in for the object ', el('b', {}, chosen.object), '.') : null),
    classes.length ? cards : card(el('p', {}, 'The store has no classes.')),
  ];
});
