// Tables with their schemas and snapshots, and an editor for queries.
import { el, get, post, param, link, render, section, card, list, sizes, dateOfMs, field, button, later, problem, missing, count, poolField, about } from './common.js';
import { rowsTable, summary, plans } from './rows.js';

const pool = param('pool'), name = param('table'), snapshot = param('snapshot');
const quoted = (text) => (/^[a-z_][a-z0-9_]*$/.test(text) ? text : '"' + text.replaceAll('"', '""') + '"');

function editor(isWritable) {
  const start = name ? 'SELECT * FROM ' + quoted(pool) + '.' + quoted(name) + (snapshot && /^\d+$/.test(snapshot) ? ' FOR VERSION AS OF ' + snapshot : '') + ' LIMIT 100' : param('sql') || 'SELECT 1';
  const sql = field('Statement', 'textarea', { rows: 5, spellcheck: 'false', class: 'mono', autocapitalize: 'off' });
  sql.input.value = start;
  const place = field('Where parts that can run beside the objects run', 'select', {},
    [['auto', 'where it is faster'], ['always', 'beside the objects'], ['never', 'in benthic-sql']].map(([value, text]) => el('option', { value }, text)));
  const out = el('div', {});
  let running = null;
  const stop = button('Stop', () => { if (running) running.abort(); });
  stop.disabled = true;
  const run = async (before) => {
    if (running) running.abort();
    const own = running = new AbortController();
    stop.disabled = false;
    out.replaceChildren(el('p', { class: 'soft', role: 'status' }, 'Running…'));
    try {
      const answer = await post('sql', { sql: before + sql.input.value, pushdown: place.input.value }, own.signal);
      out.replaceChildren(summary(answer), ...(answer.plans.length ? plans(answer).flat() : [rowsTable(answer)]));
    } catch (error) {
      if (own !== running) return;
      out.replaceChildren(error.name === 'AbortError' ? el('p', { role: 'status' }, 'Stopped.') : problem(error));
    }
    if (own === running) { running = null; stop.disabled = true; }
  };
  sql.input.addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(''); } });
  return section('Query', sql.node,
    el('div', { class: 'fields' }, place.node),
    el('div', { class: 'actions' }, button('Run', () => run(''), 'primary'), button('Plan', () => run('EXPLAIN ')), button('Run and show where', () => run('EXPLAIN ANALYZE ')), stop,
      el('span', { class: 'soft small' }, 'Ctrl+Enter runs it. ' + (isWritable ? 'Statements may change tables.' : 'Statements that change tables are refused.'))),
    out);
}

function tables() {
  return section('Tables', later(el('div', {}), async () => {
    const [choice, answer] = await Promise.all([poolField(pool, (chosen) => { location.href = link('tables', { pool: chosen }); }, true), get('tables', { pool })]);
    const rows = answer.tables.map((one) => [
      el('a', { href: link('tables', { pool: one.pool, table: one.table }), 'aria-current': one.pool === pool && one.table === name ? 'true' : null }, one.pool + '.' + one.table),
      one.rows === undefined ? el('span', { class: 'bad state' }, one.state) : count(one.rows), count(one.objects), sizes(one.size_bytes), one.time_unix_ms ? el('span', { class: 'kept' }, dateOfMs(one.time_unix_ms)) : '']);
    return [el('div', { class: 'fields' }, choice),
      rows.length ? list([['Table', 'text'], ['Rows'], ['Objects'], ['Size'], ['Changed (UTC)']], rows) : el('p', { class: 'soft' }, 'There are no tables here. ', el('code', {}, 'benthic table create POOL/TABLE FILES'), ' creates one.')];
  }));
}

function details() {
  return [
    section('Columns of ' + pool + '.' + name, later(el('div', {}), async () => {
      const one = await get('table', { pool, table: name, snapshot });
      const facts = [['Rows', count(one.rows)], ['Objects', count(one.objects)], ['Size', sizes(one.size_bytes)], ['Snapshot', count(one.snapshot)],
        ['Partitioned by', one.partition_by], ['Sorted by', one.sort_by.join(', ') || 'nothing'], ['Indexes', one.indexes.map((columns) => '(' + columns.join(', ') + ')').concat(one.text_indexes.map((column) => 'text(' + column + ')')).join(', ') || 'none']];
      return [el('dl', { class: 'facts' }, facts.map(([fact, value]) => el('div', {}, el('dt', {}, fact), el('dd', {}, value)))),
        list([['Column', 'text'], ['Type', 'text'], ['Nulls', 'text']], one.columns.map((column) => [column.name, column.type, column.nullable ? 'yes' : 'no']))];
    })),
    section('Snapshots', later(el('div', {}), async () => {
      const { snapshots } = await get('table/history', { pool, table: name });
      return list([['Snapshot', 'text'], ['Operation', 'text'], ['Rows'], ['Objects'], ['Size'], ['Time (UTC)']], snapshots.reverse().map((one) => [
        el('a', { href: link('tables', { pool, table: name, snapshot: one.snapshot }) }, String(one.snapshot)), one.operation, count(one.rows), count(one.objects), sizes(one.size_bytes), el('span', { class: 'kept' }, dateOfMs(one.time_unix_ms))]));
    })),
  ];
}

render(async () => {
  const console = await about;
  if (!console.programs.sql) return card(missing('sql'));
  return [editor(console.writable), name ? details() : null, tables()];
});
