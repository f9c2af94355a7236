// The part of a map that is looked at: rows by where they lie in the hash, all columns of the answer.

/** rowsIn returns the rows of a map whose keys lie in [low, high). */
export function rowsIn(map, { low, high }) {
  const rows = map.rows.filter((r) => r.at >= low && r.at < high);
  return rows.length > 0 ? rows : map.rows;
}

/** sums returns the sums of rows by column and by row, up to a column. */
export function sums(rows, columns) {
  const byColumn = new Array(columns).fill(0);
  const byRow = rows.map((r) => {
    let sum = 0;
    for (let x = 0; x < columns; x++) {
      const v = r.values[x] ?? 0;
      byColumn[x] += v;
      sum += v;
    }
    return sum;
  });
  return { byColumn, byRow };
}

/** partitions returns [{range, first, count}] of rows that follow each other in the same physical partition. */
export function partitions(rows) {
  const out = [];
  rows.forEach((r, i) => {
    const last = out.at(-1);
    if (last && last.range === r.range) last.count++;
    else out.push({ range: r.range, first: i, count: 1 });
  });
  return out;
}

/** brushed returns what a brush over columns [x0, x1] and rows [y0, y1] asks for: {from, to, low, high}. */
export function brushed(map, rows, { x0, x1, y0, y1 }) {
  const [left, right] = [Math.min(x0, x1), Math.max(x0, x1)];
  const [top, bottom] = [Math.min(y0, y1), Math.max(y0, y1)];
  const low = rows[top]?.at ?? 0;
  const next = rows[bottom + 1]?.at ?? (bottom + 1 >= rows.length ? 1 : low);
  return {
    from: map.from + left * map.step,
    to: map.from + (right + 1) * map.step,
    low: top === 0 ? Math.min(low, map.rows[0]?.at ?? 0) : low,
    high: Math.max(next, low + 1e-9),
  };
}

/** nameOf returns the keys of a row in words. */
export function nameOf(row) {
  if (!row.first) return row.keys === 1 ? "keys without a name" : `${row.keys} groups of keys without a name`;
  if (row.keys === 1) return row.first;
  return row.last && row.last !== row.first ? `${row.first} to ${row.last}, ${row.keys} keys` : `${row.first}, ${row.keys} keys`;
}
