//! Queries that must return the same rows in every pushdown mode.

/// Queries with at least one part that can run beside the object.
pub const PUSHED: [&str; 31] = [
    "SELECT 1 FROM object WHERE quantity > 30",
    "SELECT count(*) FROM object WHERE quantity > 30",
    "SELECT count(*) FROM object WHERE ratio > 0.5",
    "SELECT id FROM object WHERE ratio > 1e300",
    "SELECT min(ratio), max(ratio), sum(ratio) FROM object WHERE ratio < 2.0",
    "SELECT max(ratio) FROM object",
    "SELECT id, ratio FROM object WHERE ratio = -0.0",
    "SELECT flag, mode, sum(quantity), avg(discount), count(price), count(*) FROM object WHERE ship <= DATE '1998-09-02' \
     GROUP BY flag, mode",
    "SELECT sum(price * discount) AS revenue FROM object WHERE ship >= DATE '1994-01-01' AND ship < DATE '1995-01-01' \
     AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24",
    "SELECT id, comment FROM object WHERE comment LIKE '%foxes%' AND mode IN ('AIR', 'RAIL')",
    "SELECT upper(mode), count(*) FROM object WHERE character_length(comment) > 10 GROUP BY 1",
    "SELECT id FROM object WHERE comment IS NULL AND returned",
    "SELECT count(DISTINCT mode) FROM object WHERE id > 100",
    "SELECT mode, count(*) FILTER (WHERE quantity > 10) FROM object GROUP BY mode",
    "SELECT extract(year FROM ship) AS year, sum(price) FROM object GROUP BY year ORDER BY year",
    "SELECT id FROM object WHERE id = 777",
    "SELECT sum(quantity), count(quantity) FROM object WHERE id < 0",
    "SELECT id, price FROM object WHERE quantity > 30 ORDER BY price DESC, id LIMIT 5",
    "SELECT CASE WHEN quantity > 25 THEN 'many' ELSE 'few' END AS k, count(*) FROM object GROUP BY k",
    "SELECT tag, count(*) FROM object WHERE tag <> 'AIR' GROUP BY tag",
    "SELECT count(*) FROM object WHERE 1000 / nullif(part, 0) > 3",
    "SELECT part % 7, sum(id) FROM object GROUP BY 1 HAVING sum(id) > 1000",
    "SELECT coalesce(mode, 'none') || '-' || flag AS k, min(comment), max(ship) FROM object GROUP BY k",
    "SELECT id, sqrt(abs(ratio)), power(quantity, 2) FROM object WHERE ln(quantity) > 3 AND NOT isnan(ratio)",
    "SELECT gcd(id, 12), count(*), max(trunc(price, 1)) FROM object GROUP BY 1",
    "SELECT id FROM object ORDER BY price DESC, id LIMIT 5",
    "SELECT * FROM object ORDER BY ratio DESC NULLS LAST, id LIMIT 12 OFFSET 3",
    "SELECT upper(comment) AS c, id FROM object ORDER BY c NULLS FIRST, id DESC LIMIT 100",
    "SELECT tag, mode, id FROM object WHERE quantity > 10 ORDER BY mode, flag DESC, id LIMIT 8000",
    "SELECT count(*) FROM (SELECT id, comment FROM object LIMIT 10)",
    "SELECT max(sin(id) + cos(id) * atan2(id, part) - log(2, id + 1)) FROM object",
];

/// Queries that run only in the client, or for which the place does not matter.
pub const OTHERS: [&str; 14] = [
    "SELECT count(*) FROM object",
    "SELECT min(id), max(id), min(ship), max(price) FROM object",
    "SELECT * FROM object",
    "SELECT id + 1, mode FROM object",
    "SELECT * FROM object WHERE id BETWEEN 10 AND 20",
    "SELECT count(*) FROM (SELECT * FROM object WHERE quantity > 10 LIMIT 100)",
    "SELECT count(*) FROM (SELECT id FROM object LIMIT 100) WHERE id >= 0",
    "SELECT count(*), sum(a.quantity) FROM object a JOIN object b ON a.id = b.part WHERE b.quantity > 40",
    "SELECT stddev(quantity), median(price) FROM object WHERE id > 5",
    "SELECT mode, id FROM object WHERE mode = 'AIR' UNION ALL SELECT flag, id FROM object WHERE flag = 'R'",
    "SELECT (SELECT max(id) FROM object WHERE quantity > 20) - min(id) FROM object WHERE quantity > 10",
    "SELECT id, sum(quantity) OVER (PARTITION BY flag ORDER BY id) FROM object WHERE id < 500",
    "SELECT count(*) FROM object WHERE regexp_like(comment, 'fox.*beans')",
    "SELECT date_trunc('month', \"At\") AS month, count(*) FROM object WHERE \"At\" > '1992-01-05T00:00:00Z' GROUP BY month",
];
