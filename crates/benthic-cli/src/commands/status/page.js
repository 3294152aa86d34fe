// Polls status.json and fills the page with its data. Names from the cluster may contain anything, so text is only ever
// inserted as text.
import {
  shown, el, svg, prose, byId, put, fold, table, bar, known, count, several, bytes, rate, operations, ms, percent, time, utcDay, share, sharePercent, fillTone,
} from './elements.js';

(() => {
  const ANSWER_LIMIT_MS = 10000;
  const VERDICTS = {
    healthy: { word: 'Healthy', tone: 'ok', says: 'There is no problem, or only planned work goes on.' },
    degraded: { word: 'Degraded', tone: 'warn', says: 'The cluster works, but a part is missing: look at it in working hours.' },
    at_risk: { word: 'At risk', tone: 'bad', says: 'The cluster works, but the next failure may stop it or lose data: look at it now.' },
    down: { word: 'Down', tone: 'bad', says: 'Some reads or writes wait or fail.' },
  };
  const SEVERITIES = { error: ['error', 'bad'], warning: ['warning', 'warn'], info: ['note', 'note'] };
  // A tick, a line, an exclamation mark and a cross, so that the verdict does not depend on colour.
  const SIGNS = { healthy: 'M5 13l5 5L20 7', degraded: 'M4 12h16', at_risk: 'M12 4v10M12 19v.5', down: 'M5 5l14 14M19 5L5 19' };
  const SPANS = [['minutes', '6 hours'], ['hours', '7 days']];

  let data = null;
  let seenAt = 0; // time of the data, on the clock of performance.now()
  let failure = null;
  let span = 'minutes';

  // ---- known values ----

  // The values of the last poll; null where it did not see the value.
  function values() {
    const numbers = data.report.numbers;
    const unknown = Object.fromEntries((numbers.unknown || []).map((name) => [name, null]));
    const { io, recovery } = data, availability_percent = data.report.availability_percent;
    return { ...numbers, ...unknown, availability_percent, io, recovery, places: data.places.length ? data.places : null, pools: 'pools' in unknown ? null : data.pools };
  }
  // The values of earlier polls that the last one did not see, each with its time.
  const earlier = () => data.last_known || {};
  const ago = (seconds) => (seconds < 2 ? 'now' : time(seconds) + ' ago');
  const since = (unix) => new Date(unix * 1000).toISOString().slice(0, 16).replace('T', ' ') + ' UTC, ' + ago(Math.max(0, data.unix_s - unix));
  // Draws a part from its value now, or in grey from the last known one with its time.
  function part(key, draw) {
    const now = values(), last = earlier()[key];
    if (known(now[key])) return draw(now);
    if (!last) return el('p', { class: 'soft' }, 'Unknown.');
    const before = { ...now, ...Object.fromEntries(Object.entries(earlier()).map(([name, one]) => [name, one.value])) };
    return el('div', { class: 'unknown' }, el('p', { class: 'soft' }, 'Unknown. Last known ' + since(last.unix_s) + ':'), draw(before));
  }
  const bySource = (name, form) => {
    const sources = data.report.sources;
    const says = (view) => (known(view[name]) ? form(view[name]) + ' (' + ago(view.age_s) + ')' : 'unknown');
    return 'by the monitors ' + says(sources.monitors) + ', by Benthic\u2019s own requests ' + says(sources.benthic);
  };

  // ---- parts of the page ----

  const verdictOf = () => VERDICTS[data.report.verdict] || { word: data.report.verdict, tone: 'warn', says: '' };
  function verdict() {
    const report = data.report, is = verdictOf();
    const found = ['error', 'warning', 'info'].map((severity) => {
      const number = report.findings.filter((finding) => finding.severity === severity).length;
      return number ? several(number, SEVERITIES[severity][0]) : null;
    }).filter((text) => text);
    byId('verdict').className = is.tone;
    put('verdict',
      svg('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true' },
        svg('path', { d: SIGNS[report.verdict] || SIGNS.at_risk, fill: 'none', stroke: 'currentColor', 'stroke-width': 3, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' })),
      el('div', {},
        el('h2', { id: 'verdict-word' }, is.word),
        el('p', {}, is.says),
        el('p', { class: 'small' }, found.join(', ') || 'Nothing found', '; ', bySource('verdict', (name) => (VERDICTS[name] || { word: name }).word.toLowerCase()),
          report.ceph ? '. Ceph says ' + report.ceph + '.' : '.')));
    byId('which').replaceChildren(el('span', { class: 'mono' }, report.fsid || 'no monitor answers'));
  }

  function finding(one) {
    const [word, tone] = SEVERITIES[one.severity] || [one.severity, 'warn'];
    const more = one.count > one.which.length && one.which.length > 0 ? ' and ' + count(one.count - one.which.length) + ' more' : '';
    return el('article', { class: 'finding ' + tone },
      el('h3', {}, el('span', { class: 'tag' }, one.stops_io ? word + ', stops I/O' : word), ' ', one.name),
      el('p', {}, prose(one.what)),
      one.which.length ? el('p', { class: 'soft small' }, one.which.join(', ') + more) : null,
      el('p', { class: 'next' }, prose(one.next)));
  }

  function wrong() {
    const report = data.report;
    const alarms = report.findings.filter((one) => one.severity !== 'info').map(finding);
    const notes = report.findings.filter((one) => one.severity === 'info');
    put('wrong',
      alarms.length ? alarms : el('p', {}, 'There are no problems.'),
      notes.length ? fold('notes', several(notes.length, 'note') + ': information, no problem', false, () => notes.map(finding)) : null,
      report.missing.length ? fold('missing', several(report.missing.length, 'request') + ' failed', false, () =>
        el('ul', {}, report.missing.map((one) => el('li', {}, prose(one.what + ': ' + one.why))))) : null);
  }

  // The tiles: the name, the values that it needs, and their form: large, small, and the tone.
  const TILES = [
    ['Availability', ['availability_percent'], (is) => [percent(is.availability_percent), [bySource('availability_percent', percent), known(is.pgs) ? count(is.pgs_taking_io) + ' of ' + several(is.pgs, 'PG') + ' take I/O, says the manager' : null],
        is.availability_percent < 100 ? 'bad' : 'ok']],
    ['OSDs up', ['osds'], (is) => {
      const up = is.osds.filter((osd) => osd.up).length, within = is.osds.filter((osd) => osd.in).length;
      const own = is.osd_answers, asked = own ? own.answered.length + own.silent.length : 0, sources = data.report.sources;
      return [up + ' of ' + is.osds.length, ['say the monitors (' + ago(sources.monitors.age_s) + '), ' + within + ' in',
        own ? own.answered.length + ' of ' + asked + ' answered Benthic (' + ago(sources.benthic.age_s) + ')' : 'answers to Benthic not known'],
      up < within || !is.osds.length || (own && own.answered.length < asked) ? 'bad' : 'ok'];
    }],
    ['Monitors', ['monitors'], (is) => {
      const monitors = Object.values(is.monitors), quorum = monitors.filter((one) => one).length;
      return [quorum + ' of ' + monitors.length, [known(is.clock_skew_ms_max) ? 'clocks within ' + ms(is.clock_skew_ms_max) : 'in quorum'], quorum < monitors.length ? 'warn' : 'ok'];
    }],
    ['Manager', ['managers_standby'], (is) => [known(is.manager) ? is.manager : 'none', [count(is.managers_standby) + ' standing by'], !known(is.manager) || data.report.is_stale ? 'bad' : 'ok']],
    ['Space used', ['used_bytes', 'total_bytes'], (is) => {
      const fullest = known(is.fullest_osd) ? 'the fullest, osd.' + is.fullest_osd + ', is at ' + is.fullest_percent.toFixed(1) + '%' : null;
      const full = known(is.full_in_days) ? 'full in ' + time(is.full_in_days * 86400) + ' at this rate' : is.growth === 'not_growing' ? 'does not grow' : 'no prediction yet';
      return [sharePercent(share(is.used_bytes, is.total_bytes)), [bytes(is.used_bytes) + ' of ' + bytes(is.total_bytes) + ' raw', fullest, full, stale()],
        known(is.fullest_percent) && !data.report.is_stale ? fillTone(is.fullest_percent / 100) || 'ok' : 'unknown'];
    }],
    ['Objects', ['objects'], (is) => [count(is.objects), [is.degraded_objects || is.misplaced_objects || is.unfound_objects
      ? 'replicas: ' + count(is.degraded_objects) + ' missing, ' + count(is.misplaced_objects) + ' misplaced; ' + count(is.unfound_objects) + ' objects unfound' : 'none degraded', stale()], null]],
    ['Clients read', ['io'], (is) => [rate(is.io.read_bytes_per_s), [operations(is.io.read_ops_per_s)], null]],
    ['Clients write', ['io'], (is) => [rate(is.io.write_bytes_per_s), [operations(is.io.write_ops_per_s)], null]],
    ['Slow operations', ['slow_operations'], (is) => [count(is.slow_operations), [known(is.commit_latency_ms_max) ? 'the slowest disk commits in ' + ms(is.commit_latency_ms_max) : null], is.slow_operations ? 'warn' : null]],
  ];
  const stale = () => (data.report.is_stale ? 'stale: no manager answers' : null);

  function tile(name, big, small, tone) {
    const text = small.filter((line) => line).join('; ');
    return el('div', { class: tone || null }, el('dt', {}, name), el('dd', { class: 'big' }, big), text ? el('dd', { class: 'soft small' }, text) : null);
  }

  function numbers() {
    const now = values(), last = earlier(), probe = now.probe;
    const before = Object.fromEntries(Object.entries(last).map(([key, one]) => [key, one.value]));
    const tiles = TILES.map(([name, needs, show]) => {
      if (needs.every((key) => known(now[key]))) return tile(name, ...show(now));
      if (!needs.every((key) => known(before[key]))) return tile(name, 'unknown', [], 'unknown');
      return tile(name, 'unknown', ['last known: ' + show(before)[0], since(Math.min(...needs.map((key) => last[key].unix_s)))], 'unknown');
    });
    put('numbers', tiles,
      probe ? tile('Probe in ' + probe.pool, probe.error ? 'failed' : ms(probe.write_ms), [probe.error ? probe.error.message : 'to write 4 KiB; ' + ms(probe.read_ms) + ' to read'], probe.error ? 'bad' : 'ok') : null);
  }

  // ---- history ----

  function rowsOf(tier) {
    const names = data.history.columns;
    return data.history[tier].rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index]])));
  }

  function ofDay(day) {
    if (!day) return ['none', 'not observed'];
    const mean = day.availability_percent_mean;
    const isLow = known(mean) && mean < 99.99;
    const tone = day.down_s >= 300 || (known(mean) && mean < 99) ? 'bad' : day.down_s > 0 || isLow ? 'warn' : known(mean) ? 'ok' : 'none';
    const down = day.down_s > 0 ? ', down for ' + time(day.down_s) : '';
    return [tone, percent(mean) + down + ', observed for ' + time(day.observed_s) + ', known for ' + time(day.availability_known_s)];
  }

  function days() {
    const tier = data.history.days, rows = new Map(rowsOf('days').map((day) => [day.start_unix_s, day]));
    const number = 90, width = byId('days').clientWidth || 320, step = width / number, high = 40;
    const all = [];
    for (let index = 0; index < number; index += 1) all.push(tier.from_unix_s + index * tier.slot_s);
    let observed = 0, sum = 0, over = 0, down = 0;
    for (const day of rows.values()) {
      observed += day.observed_s; down += day.down_s;
      if (known(day.availability_percent_mean)) { sum += day.availability_percent_mean * day.availability_known_s; over += day.availability_known_s; }
    }
    const total = over > 0 ? percent(sum / over) : 'not known';
    const picture = svg('svg', { viewBox: `0 0 ${width} ${high + 10}`, role: 'img', 'aria-label': 'Availability by day over 90 days: ' + total });
    all.forEach((start, index) => {
      const [tone, says] = ofDay(rows.get(start));
      const x = index * step, w = Math.max(1, step - Math.min(2, step * 0.25));
      picture.append(svg('rect', { x: x.toFixed(2), y: 0, width: w.toFixed(2), height: high, rx: Math.min(2, w / 2).toFixed(2), class: 'day ' + tone }, svg('title', {}, utcDay(start) + ': ' + says)));
      const mark = tone === 'bad' ? 8 : tone === 'warn' ? 4 : 0;
      if (mark) picture.append(svg('rect', { x: x.toFixed(2), y: high + 2, width: w.toFixed(2), height: mark, class: 'mark' }));
    });
    const lines = [...all].reverse().filter((start) => rows.has(start)).map((start) => {
      const day = rows.get(start);
      return [utcDay(start), percent(day.availability_percent_mean), percent(day.availability_percent_min), time(day.down_s), time(day.observed_s)];
    });
    put('days',
      el('p', {}, el('b', {}, total), over > 0 ? ' over the ' + time(over) + ' of the last 90 days for which it is known' : '', observed > over ? '; unknown for ' + time(observed - over) : '', down > 0 ? '; down for ' + time(down) : '', '.'),
      el('figure', {}, picture),
      el('div', { class: 'row soft small' }, el('span', {}, utcDay(all[0])), el('span', {}, 'today (UTC)')),
      el('p', { class: 'soft small' }, 'A short mark below a day: less than 99.99%, or down. A long mark: less than 99%, or down for 5 minutes. Grey: not observed, or unknown. ' +
        'Availability is the lower of two values. By the monitors, it is 100% while Ceph reports HEALTH_OK, otherwise the share of placement groups that take I/O. ' +
        'By Benthic\u2019s own requests, it is the share of placement groups whose OSD answers.'),
      lines.length ? fold('days', 'Day by day', false, () => el('div', { class: 'scroll', tabindex: 0 },
        table([['Day (UTC)'], ['Availability'], ['Least'], ['Down'], ['Observed']], lines, 'cards'))) : null);
  }

  function nice(most, base) {
    if (!(most > 0)) return 1;
    let scale = 1;
    while (base && most / scale >= base) scale *= base;
    const ten = 10 ** Math.floor(Math.log10(most / scale));
    return [1, 2, 5, 10].map((step) => step * ten * scale).find((end) => end >= most) || most;
  }

  function ticks(from, to, width) {
    const steps = [900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
    const step = steps.find((one) => (to - from) / one <= width / 64) || 172800;
    const shift = new Date(to * 1000).getTimezoneOffset() * 60;
    const found = [];
    for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
      const date = new Date(at * 1000);
      found.push([at, step < 86400 && (to - from) <= 86400 ? date.toTimeString().slice(0, 5) : date.toLocaleDateString('en', { day: 'numeric', month: 'short' })]);
    }
    return found;
  }

  // A chart over time, with gaps where nobody looked or nothing is known.
  function chart(title, series, form, options, width) {
    const tier = data.history[span], rows = rowsOf(span), from = tier.from_unix_s, to = data.unix_s;
    const left = 72, right = 8, top = 8, high = 120, bottom = 20;
    const values = rows.flatMap((row) => series.map(([, column]) => row[column])).filter(known);
    const least = options.least ? options.least(values) : 0;
    const most = options.most || nice(Math.max(0, ...values), options.base);
    const x = (at) => left + (Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from) * (width - left - right);
    const y = (value) => top + high - (value - least) / (most - least) * high;
    const picture = svg('svg', { viewBox: `0 0 ${width} ${top + high + bottom}`, role: 'img' });
    let unseen = from;
    const grey = (until) => { if (until - unseen > tier.slot_s / 2) picture.append(svg('rect', { x: x(unseen).toFixed(1), y: top, width: (x(until) - x(unseen)).toFixed(1), height: high, class: 'unseen' }, svg('title', {}, 'not observed'))); };
    for (const row of rows) { grey(row.start_unix_s); unseen = row.start_unix_s + tier.slot_s; }
    if (to > unseen) grey(to);
    for (const value of [least, (least + most) / 2, most]) {
      picture.append(svg('line', { x1: left, x2: width - right, y1: y(value).toFixed(1), y2: y(value).toFixed(1), class: 'grid' }),
        svg('text', { x: left - 6, y: (y(value) + 4).toFixed(1), 'text-anchor': 'end' }, form(value)));
    }
    for (const [at, text] of ticks(from, to, width - left)) {
      const anchor = x(at) > width - 24 ? 'end' : x(at) < left + 12 ? 'start' : 'middle';
      picture.append(svg('line', { x1: x(at).toFixed(1), x2: x(at).toFixed(1), y1: top + high, y2: top + high + 4, class: 'grid' }),
        svg('text', { x: x(at).toFixed(1), y: top + high + 16, 'text-anchor': anchor }, text));
    }
    const kinds = ['one', 'two'];
    const legend = series.map(([name, column], index) => {
      let path = '', before = null;
      for (const row of rows) {
        const value = row[column], at = row.start_unix_s + tier.slot_s / 2;
        if (!known(value)) { before = null; continue; }
        const joins = before !== null && at - before <= tier.slot_s * 1.5;
        path += `${joins ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}${joins ? '' : 'h.01'}`;
        before = at;
      }
      if (path) picture.append(svg('path', { d: path, class: 'line ' + kinds[index] }));
      const there = rows.map((row) => row[column]).filter(known);
      const says = there.length ? [el('b', {}, form(there[there.length - 1])), ' last, ', options.low ? form(Math.min(...there)) + ' least' : form(Math.max(...there)) + ' most'] : ['nothing seen'];
      return el('li', {}, svg('svg', { viewBox: '0 0 24 12', 'aria-hidden': 'true' }, svg('path', { d: 'M1 6h22', class: 'line ' + kinds[index] })), name + ': ', says);
    });
    const list = el('ul', { class: 'legend' }, legend);
    picture.setAttribute('aria-label', title + ', ' + (SPANS.find(([tierName]) => tierName === span) || ['', ''])[1] + '. ' + list.textContent);
    return el('figure', {}, el('figcaption', {}, title), picture, list);
  }

  function charts() {
    put('spans', SPANS.map(([tier, name]) => {
      const button = el('button', { type: 'button', 'aria-pressed': String(span === tier), 'data-key': 'span-' + tier }, name);
      button.addEventListener('click', () => { span = tier; keepFocus(charts); });
      return button;
    }));
    const box = byId('charts'), whole = box.clientWidth || 320;
    // The number of columns must match the style sheet.
    const columns = Math.max(1, Math.floor((whole + 20) / 420));
    const width = Math.floor((whole - 20 * (columns - 1)) / columns);
    const probed = rowsOf(span).some((row) => known(row.probe_write_ms) || known(row.probe_read_ms));
    const both = (what) => [['read', `read_${what}_per_s`], ['written', `write_${what}_per_s`]];
    put('charts',
      chart('Availability', [['mean', 'availability_percent_mean']], (value) => Math.floor(value * 100) / 100 + '%',
        { most: 100, least: (values) => Math.min(90, Math.floor(Math.min(100, ...values) / 10) * 10), low: true }, width),
      chart('Client throughput, bytes a second', both('bytes'), rate, { base: 1024 }, width),
      chart('Client operations a second', both('ops'), operations, {}, width),
      probed || data.report.numbers.probe ? chart('Probe: 4 KiB, milliseconds', [['write', 'probe_write_ms'], ['read', 'probe_read_ms']], ms, {}, width) : null);
  }

  // ---- places, placement groups, pools, classes ----

  function osdRow(own, osds) {
    const osd = osds.get(own.osd);
    if (!osd) return el('li', {}, el('span', {}, 'osd.' + own.osd), el('span', { class: 'soft' }, 'not known'), el('span', {}));
    const isSilent = osd.up && osd.answers === false;
    const tone = isSilent ? 'bad' : osd.up ? (osd.in ? 'ok' : 'warn') : osd.in ? 'bad' : 'warn';
    const used = share(osd.used_bytes, osd.total_bytes);
    return el('li', {},
      el('span', {}, 'osd.' + own.osd),
      el('span', { class: tone }, el('span', { class: 'state' }, (isSilent ? 'up, no answer' : osd.up ? 'up' : 'down') + (osd.in ? '' : ', out')), own.device_class ? el('span', { class: 'soft' }, ' ' + own.device_class) : null,
        osd.commit_latency_ms >= 100 ? el('span', { class: 'soft' }, ' ' + ms(osd.commit_latency_ms)) : null),
      known(used) ? bar(used, sharePercent(used), fillTone(used)) : el('span', { class: 'soft' }, 'size not known'));
  }

  function place(one, key, depth, osds) {
    const used = share(one.used_bytes, one.total_bytes);
    const isSeen = known(one.osds_up), isHurt = isSeen && (one.osds_up < one.osds || one.osds_silent > 0);
    const line = el('span', { class: 'line-of' },
      el('span', {}, el('b', {}, one.name), ' ', el('span', { class: 'soft small' }, one.type)),
      el('span', { class: !isSeen ? 'unknown' : isHurt ? 'bad' : 'ok' },
        el('span', { class: 'state small' }, isSeen ? one.osds_up + ' of ' + one.osds + ' up' : 'unknown'),
        one.osds_silent > 0 ? el('span', { class: 'state small' }, ', ' + one.osds_silent + ' without answer') : null,
        isSeen && one.osds_in < one.osds ? el('span', { class: 'soft small' }, ', ' + one.osds_in + ' in') : null),
      known(used) ? bar(used, sharePercent(used), fillTone(used)) : el('span', {}));
    if (one.is_repeated) return el('div', { class: 'place' }, line, el('p', { class: 'soft small' }, 'is listed above'));
    const isOpen = depth < 1 || (depth < 3 && (osds.size <= 24 || isHurt));
    return el('div', { class: 'place' }, fold(key, line, isOpen, () => el('div', { class: 'inner' },
      one.places.map((inner, index) => place(inner, key + '/' + index + ':' + inner.name, depth + 1, osds)),
      one.own_osds.length ? el('ul', { class: 'osds' }, one.own_osds.map((own) => osdRow(own, osds))) : null)));
  }

  function tree() {
    put('tree', part('places', (is) => {
      const osds = new Map((is.osds || []).map((osd) => [osd.osd, osd]));
      return el('div', {}, is.places.map((root, index) => place(root, 'tree/' + index + ':' + root.name, 0, osds)));
    }));
  }

  const takesIo = (state) => /\bactive\b/.test(state) && !/\b(stale|laggy)\b/.test(state);
  function pgs() {
    const own = data.report.numbers.osd_answers, silent = own ? own.silent.length : 0;
    const old = data.report.is_stale ? 'This is the manager\u2019s last report, which is stale.'
      : silent ? 'This is the manager\u2019s last report. Since then, ' + several(silent, 'OSD') + ' did not answer Benthic.' : null;
    const shares = (total, states) => (states.length ? table([['State', 'text'], ['Takes I/O'], ['Placement groups'], ['Share', 'wide']], states.map(([state, number]) => [
      state, el('span', { class: takesIo(state) ? 'ok' : 'bad' }, el('span', { class: 'state' }, takesIo(state) ? 'yes' : 'no')),
      count(number), bar(share(number, total), sharePercent(share(number, total)), takesIo(state) ? (state === 'active+clean' ? 'ok' : 'warn') : 'bad')]), 'cards')
      : el('p', { class: 'soft' }, 'There are none.'));
    put('pgs', el('div', { class: old ? 'unknown' : null }, old ? el('p', { class: 'soft small' }, old) : null,
      part('pgs_by_state', (is) => shares(is.pgs, Object.entries(is.pgs_by_state).sort((a, b) => b[1] - a[1])))));
  }

  function pools() {
    const kept = (pool) => (known(pool.data_chunks) ? pool.data_chunks + ' + ' + (pool.size - pool.data_chunks) + ' chunks' : several(pool.size, 'replica'));
    const io = (pool, what) => (pool.io ? el('span', {}, el('span', { class: 'kept' }, rate(pool.io[`${what}_bytes_per_s`])), ', ', el('span', { class: 'kept' }, operations(pool.io[`${what}_ops_per_s`]))) : '?');
    const led = (pool) => {
      const sites = Object.entries(pool.primaries).filter(([, number]) => number > 0);
      return sites.length > 6 ? several(sites.length, 'place') : sites.map(([site, number]) => site + ' ' + count(number)).join(', ') || 'not known';
    };
    const taking = (pool) => (known(pool.pgs_taking_io) && pool.pgs_taking_io < pool.pgs
      ? el('span', { class: 'bad' }, el('span', { class: 'state' }, count(pool.pgs_taking_io) + ' of ' + count(pool.pgs) + ' take I/O')) : count(pool.pgs));
    const list = (all) => (all.length ? table([['Pool', 'text'], ['Kept as'], ['PGs'], ['Stored'], ['Objects'], ['Reads'], ['Writes'], ['Primaries at']],
      all.map((pool) => [pool.pool, kept(pool), taking(pool), bytes(pool.stored_bytes), count(pool.objects), io(pool, 'read'), io(pool, 'write'), led(pool)]), 'cards')
      : el('p', { class: 'soft' }, 'There are none.'));
    put('pools', part('pools', (is) => list(is.pools)));
  }

  function classes() {
    const library = (one) => el('article', { class: 'finding ' + (one.builds.length > 1 || one.without.length ? 'warn' : 'ok') },
      el('h3', {}, one.name),
      one.builds.map((build) => el('p', {}, 'build ' + build.build + ' in ' + several(build.osds.length, 'OSD'))),
      one.without.length ? el('p', {}, several(one.without.length, 'OSD') + ' without it: ' + one.without.slice(0, 8).map((osd) => 'osd.' + osd).join(', ')) : null,
      one.silent.length ? el('p', { class: 'soft' }, several(one.silent.length, 'OSD') + ' did not answer') : null,
      counting(data.calls.find((calls) => calls.library === one.name)));
    const sums = (one) => {
      const calls = data.calls.find((calls) => calls.library === one.library);
      return calls ? calls.classes.find((sums) => sums.class === one.class) : undefined;
    };
    put('classes',
      part('libraries', (is) => (is.libraries.length ? el('div', {}, is.libraries.map(library)) : el('p', { class: 'soft' }, 'No OSD is known to have a class library built with Benthic.'))),
      data.classes.length ? table([['Class', 'text'], ['Library'], ['Calls'], ['Failures'], ['Time'], ['Purpose', 'text']],
        data.classes.map((one) => [one.class, one.library + (one.version === 1 ? '' : ', version ' + one.version), ...called(sums(one)), one.summary]), 'cards') : null,
      data.classes.length ? fold('classes', 'Method by method', false, () =>
        table([['Method', 'text'], ['Calls'], ['Failures'], ['Time'], ['A call takes']],
          data.classes.flatMap((one) => one.methods.map((name) => {
            const own = (sums(one) || { methods: [] }).methods.find((method) => method.method === name);
            return [one.class + ' ' + name, ...called(own), own && own.calls ? ms(own.busy_us / 1000 / own.calls) : '\u2013'];
          })), 'cards')) : null,
      el('p', { class: 'soft small' }, 'Calls since the first poll of this server, and calls per second between the last two polls of the counters, which are every fourth poll. Every answer except success is a failure, ' +
        'including that another client holds a lock. Time is the share of one OSD thread that the calls took, summed over all OSDs.'));
  }

  // Describes which OSDs with a library count calls.
  function counting(calls) {
    if (!calls) return el('p', { class: 'soft' }, 'calls are not counted');
    const told = [
      calls.osds ? 'calls are counted in ' + several(calls.osds, 'OSD') + ' for ' + time(Math.max(0, data.unix_s - calls.since_unix_s)) : null,
      calls.osds_not_counting ? 'not counted in ' + several(calls.osds_not_counting, 'OSD') + ' with an older build' : null,
      calls.osds_not_seen ? several(calls.osds_not_seen, 'OSD') + ' did not answer' : null,
    ].filter((text) => text);
    return el('p', { class: 'soft' }, told.join('; ') || 'calls are not counted');
  }

  // Calls, failures and time of a class or a method.
  function called(sums) {
    if (!sums) return ['not counted', '\u2013', '\u2013'];
    const lately = (rate) => (known(rate) && rate > 0 ? el('span', { class: 'soft' }, ' ' + (rate < 0.1 ? '<0.1/s' : operations(rate))) : null);
    const cell = (total, rate) => el('span', { class: 'kept' }, count(total), lately(rate));
    return [cell(sums.calls, sums.calls_per_s), cell(sums.failures, sums.failures_per_s), known(sums.busy_share) ? sharePercent(sums.busy_share) : '\u2013'];
  }

  // ---- the page as a whole ----

  // Restores the focus after the focused element was replaced.
  function keepFocus(make) {
    const key = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
    make();
    if (key) for (const node of document.querySelectorAll('[data-key]')) if (node.dataset.key === key) node.focus({ preventScroll: true });
  }

  function render() {
    byId('all').hidden = false;
    keepFocus(() => [verdict, wrong, numbers, days, charts, tree, pgs, pools, classes].forEach((part) => part()));
    byId('made').replaceChildren('benthic ' + shown(data.benthic) + ', polls every ' + time(data.interval_s));
    age();
  }

  function age() {
    const seconds = data ? Math.max(0, (performance.now() - seenAt) / 1000) : 0;
    let what = '';
    if (failure) what = shown(failure);
    else if (data && data.error) what = 'The last poll of the cluster failed: ' + shown(data.error) + '.';
    else if (data && seconds > 2 * data.interval_s + 30) what = 'These data are stale.';
    // A screen reader reads only the reason, and only when it changes.
    if (byId('old-what').textContent !== what) byId('old-what').textContent = what;
    byId('old-since').textContent = data ? 'The state below was last seen ' + time(seconds) + ' ago.' : '';
    byId('old').hidden = !what;
    byId('all').classList.toggle('stale', what !== '');
    if (data) document.title = (what ? 'Stale: ' : '') + verdictOf().word + ' \u00b7 cluster status';
    if (data) byId('age').textContent = 'seen ' + time(seconds) + ' ago';
  }

  async function ask() {
    const response = await fetch('status.json', { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
    if (!response.ok) throw new Error('status ' + response.status);
    const answer = await response.json();
    // Use the server's clock, because this machine's may be wrong.
    const madeAgo = Date.parse(response.headers.get('date')) / 1000 - answer.unix_s;
    seenAt = performance.now() - 1000 * (madeAgo > 0 ? madeAgo : 0);
    const isNew = !data || data.unix_s !== answer.unix_s || data.error !== answer.error;
    data = answer;
    return isNew;
  }

  let timer = 0;
  async function poll() {
    clearTimeout(timer);
    let isRead = false;
    try {
      const isNew = await ask();
      isRead = true;
      failure = null;
      if (isNew) render(); else age();
    } catch (error) {
      const why = error.name === 'TimeoutError' ? 'no answer in ' + ANSWER_LIMIT_MS / 1000 + ' s' : error.message || String(error);
      failure = (isRead ? 'This page cannot show what the server answers: ' : 'The status server does not answer: ') + why + '.';
      age();
    }
    // Poll at least every 15 s, so that the page notices soon that the server is gone.
    timer = setTimeout(poll, 1000 * (data ? Math.min(15, data.interval_s) : 5));
  }

  let resized = 0;
  window.addEventListener('resize', () => {
    clearTimeout(resized);
    resized = setTimeout(() => { if (data) { keepFocus(days); keepFocus(charts); } }, 150);
  });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) poll(); });
  setInterval(age, 1000);
  poll();
})();
