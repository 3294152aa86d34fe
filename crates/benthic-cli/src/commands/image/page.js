"use strict";

// The page shows the difference between the newest numbers of the server and those of 10 seconds ago.
const POLL_MS = 2000;
const WINDOW_MS = 10000;
const KINDS = ["read", "write", "flush", "zero", "other"];
const samples = [];

const node = (tag, text, kind) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};

const size = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return (unit === 0 ? Math.round(bytes) : bytes.toFixed(1)) + " " + units[unit];
};

const time = (us) => us < 1000 ? us + " \u00b5s" : us < 1e6 ? us / 1000 + " ms" : us / 1e6 + " s";

// The bound below which this share of the requests was.
const quantile = (counts, bounds, share) => {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return "\u2013";
  let below = 0;
  for (let at = 0; at < bounds.length; at += 1) {
    below += counts[at];
    if (below >= share * all) return "\u2264 " + time(bounds[at]);
  }
  return "> " + time(bounds[bounds.length - 1]);
};

const row = (cells, tag) => {
  const made = node("tr");
  for (const cell of cells) made.append(cell instanceof Node ? cell : node(tag || "td", cell));
  return made;
};

const count = (number) => number > 0 ? node("td", String(number), "warn") : node("td", "0");

const card = (image, old, bounds, seconds) => {
  const card = node("section");
  card.append(node("h2", image.image));
  const about = [size(image.size_bytes) + (image.is_read_only ? ", read-only" : "")];
  about.push(image.clients + (image.clients === 1 ? " client" : " clients"));
  about.push(image.in_flight + " in flight");
  if (image.waiting > 0) about.push(image.waiting + " wait for limits");
  const limits = image.limits;
  const limit = (kind, ops, bytes) => {
    const rates = [];
    if (ops) rates.push(ops + "/s");
    if (bytes) rates.push(size(bytes) + "/s");
    if (rates.length > 0) about.push("limit of " + kind + " " + rates.join(" and "));
  };
  limit("reads", limits.read_ops_per_s, limits.read_bytes_per_s);
  limit("writes", limits.write_ops_per_s, limits.write_bytes_per_s);
  card.append(node("p", about.join(" \u00b7 "), "soft"));
  const table = node("table");
  const head = node("thead");
  head.append(row(["requests", "per second", "bytes per second", "median", "99th percentile", "slow", "errors"], "th"));
  const body = node("tbody");
  for (const name of KINDS) {
    const kind = image.kinds[name];
    const before = old ? old.kinds[name] : null;
    const counts = kind.latencies.map((now, at) => now - (before ? before.latencies[at] : 0));
    const requests = counts.reduce((sum, one) => sum + one, 0);
    const bytes = kind.bytes - (before ? before.bytes : 0);
    const rate = (value, show) => before ? show(value / seconds) : "\u2013";
    body.append(row([
      name,
      rate(requests, (per) => per < 10 ? per.toFixed(1) : String(Math.round(per))),
      name === "flush" || name === "other" ? "" : rate(bytes, size),
      quantile(counts, bounds, 0.5),
      quantile(counts, bounds, 0.99),
      count(kind.slow),
      count(kind.errors),
    ]));
  }
  table.append(head, body);
  card.append(table);
  return card;
};

const show = () => {
  const now = samples[samples.length - 1];
  const before = samples.length > 1 ? samples[0] : null;
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const cards = now.data.images.map((image) => {
    const old = before ? before.data.images.find((other) => other.image === image.image) : null;
    return card(image, old, now.data.bounds_us, seconds);
  });
  document.getElementById("images").replaceChildren(...cards);
  document.getElementById("age").textContent = new Date().toLocaleTimeString();
};

const poll = async () => {
  const lost = document.getElementById("lost");
  try {
    const answer = await fetch("status.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    samples.push({ at: performance.now(), data: await answer.json() });
    while (samples.length > 2 && samples[1].at <= performance.now() - WINDOW_MS) samples.shift();
    lost.hidden = true;
    show();
  } catch {
    lost.hidden = false;
  }
  setTimeout(poll, POLL_MS);
};

poll();
