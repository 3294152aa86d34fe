// Rows of a query, and the tree of its plan.
import { el, fold, several, time } from './common.js';

const shownValue = (value) => (value === null ? el('i', { class: 'soft' }, 'null') : typeof value === 'object' ? JSON.stringify(value) : String(value));
const isNumber = (value) => typeof value === 'number' || (typeof value === 'string' && /^-?\d{16,}$/.test(value));

export function rowsTable(answer) {
  if (!answer.rows.length) return el('p', { class: 'soft' }, 'No rows.');
  const numbers = answer.columns.map((_, index) => answer.rows.some((row) => isNumber(row[index])));
  return el('div', { class: 'rows', tabindex: 0, role: 'region', 'aria-label': 'Rows' }, el('table', { class: 'grid-table' },
    el('thead', {}, el('tr', {}, answer.columns.map((name, index) => el('th', { scope: 'col', class: numbers[index] ? 'number' : null }, name)))),
    el('tbody', {}, answer.rows.map((row) => el('tr', {}, row.map((value, index) => el('td', { class: numbers[index] ? 'number' : String(value).length < 24 ? 'brief' : null }, shownValue(value))))))));
}

export const summary = (answer) => el('p', { class: 'soft small', role: 'status' }, (answer.truncated ? 'The first ' : '') + several(answer.rows.length, 'row') + ', ' +
  (answer.seconds < 1 ? Math.round(answer.seconds * 1000) + ' ms' : time(answer.seconds)) + (answer.truncated ? '; add a LIMIT, or download the table, to see others' : ''));

const PLACES = { client: 'in benthic-sql', objects: 'beside the objects', both: 'beside some objects, in benthic-sql for others' };
// The numbers that explain a plan; the others are below a fold.
const FIRST = ['output_rows', 'elapsed_compute', 'objects_pushed', 'objects_pulled', 'objects_left_out', 'objects_left_out_by_index', 'bytes_read_there', 'bytes_moved', 'time_there', 'time_here', 'bytes_scanned'];
// These explain why parts did not run beside the objects, if they are not 0.
const REFUSALS = ['refused_busy', 'refused_too_large', 'refused_unsupported', 'refused_failed', 'objects_given_up'];

function metric([name, value]) {
  return el('div', {}, el('dt', {}, name.replaceAll('_', ' ')), el('dd', {}, value));
}

function planNode(node, path) {
  const metrics = Object.entries(node.metrics);
  const isFirst = (name) => FIRST.includes(name) || (REFUSALS.includes(name) && node.metrics[name] !== '0');
  const first = [...FIRST, ...REFUSALS].filter((name) => node.metrics[name] !== undefined && isFirst(name)).map((name) => [name, node.metrics[name]]);
  const others = metrics.filter(([name]) => !isFirst(name));
  return el('li', { class: 'place-' + node.place },
    el('div', { class: 'plan-node' },
      el('p', {}, el('b', {}, node.name), ' ', el('span', { class: 'tag' }, PLACES[node.place] || node.place)),
      node.details ? el('p', { class: 'mono small details' }, node.details) : null,
      first.length ? el('dl', { class: 'metrics' }, first.map(metric)) : null,
      others.length ? fold('plan/' + path, several(others.length, 'more number'), false, () => el('dl', { class: 'metrics' }, others.map(metric))) : null),
    node.children.length ? el('ul', {}, node.children.map((child, index) => planNode(child, path + '/' + index))) : null);
}

const NAMES = { physical_plan: 'What runs where', logical_plan: 'What the statement means', 'Plan with Metrics': 'What ran where' };
export function plans(answer) {
  const order = (one) => (one.plan === 'logical_plan' ? 1 : 0);
  const sorted = [...answer.plans].sort((a, b) => order(a) - order(b));
  return sorted.map((one, index) => {
    const tree = () => el('ul', { class: 'plan' + (one.plan === 'logical_plan' ? ' logical' : '') }, one.nodes.map((node, at) => planNode(node, index + '/' + at)));
    const title = NAMES[one.plan] || one.plan;
    return index === 0 ? [el('h3', {}, title), tree()] : fold('plan-kind/' + index, title, false, tree);
  });
}
