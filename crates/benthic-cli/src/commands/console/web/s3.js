// Buckets of the S3 gateway and their keys.
import { el, get, param, link, render, section, card, list, sizes, dateOfMs, field, form, later, missing, count, about } from './common.js';

const bucket = param('bucket'), prefix = param('prefix');

async function buckets() {
  let answer;
  try {
    answer = await get('s3/buckets');
  } catch (error) {
    if (error.kind !== 'not_found') throw error;
    return card(el('p', {}, 'No S3 gateway has used this store. ', el('code', {}, 'benthic s3 serve'), ' starts one.'), el('p', { class: 'soft small' }, error.message));
  }
  return [
    section('Buckets', answer.buckets.length ? list([['Bucket', 'text'], ['Account', 'text'], ['Created (UTC)']], answer.buckets.map((one) => [
      el('a', { href: link('s3', { bucket: one.bucket }) }, one.bucket), one.owner, one.created_ms ? el('span', { class: 'kept' }, dateOfMs(one.created_ms)) : '']))
      : el('p', { class: 'soft' }, 'There are no buckets. ', el('code', {}, 'benthic s3 serve'), ' starts a gateway; S3 clients create buckets.')),
    section('Access keys', answer.access_keys.length ? list([['Access key', 'text'], ['User', 'text']], answer.access_keys.map((one) => [
      el('span', { class: 'mono' }, one.access_key), (one.account || '') + '/' + (one.user || '')])) : el('p', { class: 'soft' }, 'There are no access keys.')),
  ];
}

async function keys() {
  const facts = later(el('div', {}), async () => {
    const one = await get('s3/bucket', { bucket });
    const usage = one.usage || {};
    const rows = [['Account', one.owner], usage.objects !== undefined ? ['Objects', count(usage.objects)] : null, usage.bytes !== undefined ? ['Size', sizes(usage.bytes)] : null,
      usage.versions !== undefined ? ['Versions', count(usage.versions)] : null, one.view ? ['Shows', one.view] : null].filter((row) => row);
    return el('dl', { class: 'facts' }, rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
  });
  const names = field('Keys that begin with', 'input', { type: 'search', value: prefix, spellcheck: 'false', autocomplete: 'off' });
  const page = later(el('div', {}), async () => {
    const answer = await get('s3/keys', { bucket, prefix, after: param('after') });
    const rows = answer.keys.map((one) => [el('span', { class: 'mono' }, one.key), sizes(one.size_bytes), el('span', { class: 'kept' }, dateOfMs(one.modified_ms)), one.etag || '']);
    return [rows.length ? list([['Key', 'text'], ['Size'], ['Changed (UTC)'], ['ETag', 'text']], rows) : el('p', { class: 'soft' }, 'No keys here.'),
      answer.next ? el('div', { class: 'actions' }, el('a', { class: 'button', rel: 'next', href: link('s3', { bucket, prefix, after: answer.next }) }, 'Next page')) : null];
  });
  return [
    el('nav', { 'aria-label': 'Path', class: 'path' }, el('ol', {}, el('li', {}, el('a', { href: link('s3') }, 'Buckets')), el('li', { 'aria-current': 'page' }, bucket))),
    card(el('h2', { class: 'name' }, bucket), facts),
    section('Keys', form(() => { location.href = link('s3', { bucket, prefix: names.input.value }); }, el('div', { class: 'fields' }, names.node, el('button', { type: 'submit', class: 'primary' }, 'Show'))), page),
  ];
}

render(async () => {
  const console = await about;
  if (!console.programs.s3) return card(missing('s3'));
  return bucket ? keys() : buckets();
});
