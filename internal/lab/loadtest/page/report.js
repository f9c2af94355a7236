// Draws the figures of a load test: outcomes, colours, palette and uPlot stand before it in the same function.

const system = matchMedia("(prefers-color-scheme: dark)");
const mode = () => (system.matches ? "dark" : "light");
const make = (tag, attributes = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), attributes);
  e.append(...children);
  return e;
};
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// A colour of the style is a pair, light-dark(a, b).
const colour = (name) => {
  const pair = /light-dark\(([^,]+),\s*([^)]+)\)/.exec(ink(name));
  return pair ? pair[system.matches ? 2 : 1].trim() : ink(name);
};
const amount = (v) => (v === 0 ? "0" : v >= 9.95 ? Math.round(v).toLocaleString("en-US") : String(Number(v.toPrecision(2))));
const dollars = (v) => `$${v.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
const time = (s) => (s === 0 ? "0" : s % 3600 === 0 ? `${s / 3600} h` : s % 60 === 0 ? `${s / 60} min` : `${s} s`);
const brightness = 0.7;
const gutter = 22; // left of a picture: numbers of physical partitions
const between = 16; // pixels between the parts of a picture

// The hottest of all pictures sets the scale of all.
const most = Math.max(1e-9, ...outcomes.flatMap((o) => o.panels).flatMap((p) => p.parts)
  .flatMap((p) => p.trace.partitions).flatMap((p) => p.rus));

// canvas returns a canvas of a width and height in pixels of the page, and its context.
function canvas(wide, high) {
  const e = make("canvas");
  const ratio = window.devicePixelRatio || 1;
  e.width = Math.round(wide * ratio);
  e.height = Math.round(high * ratio);
  e.style.width = `${wide}px`;
  e.style.height = `${high}px`;
  const ctx = e.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.font = "11px system-ui, sans-serif";
  return [e, ctx];
}

// The parts of a panel side by side, each with its place and its length in seconds.
function places(panel, wide) {
  const room = (wide - gutter - between * (panel.parts.length - 1)) / panel.parts.length;
  return panel.parts.map((part, i) => ({ part, x: gutter + i * (room + between), w: room, long: part.trace.stored.length * part.trace.step }));
}

function axes(ctx, all, high, partitions, bandOf) {
  ctx.fillStyle = colour("--muted");
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(13 / bandOf(0).whole));
  for (let p = 0; p < partitions; p += every) ctx.fillText(String(p), gutter - 6, bandOf(p).y + bandOf(p).whole / 2);
  ctx.textBaseline = "bottom";
  for (const { part, x, w, long } of all) {
    if (all.length > 1) {
      ctx.textAlign = "center";
      ctx.fillText(`${time(long)} ${part.epoch ? "after it" : "before the epoch"}`, x + w / 2, high);
    } else {
      ctx.textAlign = "left";
      ctx.fillText("0", x, high);
      ctx.textAlign = "right";
      ctx.fillText(time(long), x + w, high);
    }
    for (const at of part.trace.epochs ?? []) {
      ctx.strokeStyle = colour("--text");
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(x + (at / long) * w, 0);
      ctx.lineTo(x + (at / long) * w, high - 16);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    if (part.epoch) {
      ctx.strokeStyle = colour("--text");
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(x - between / 2, 0);
      ctx.lineTo(x - between / 2, high - 16);
      ctx.stroke();
      ctx.setLineDash([]);
    }
  }
}

function hatch(ctx, x, y, w, high) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, high);
  ctx.clip();
  ctx.strokeStyle = mode() === "dark" ? "#14171c" : "#ffffff";
  ctx.lineWidth = 1.2;
  ctx.beginPath();
  for (let d = Math.floor((x - high) / 5) * 5; d < x + w; d += 5) {
    ctx.moveTo(d, y + high);
    ctx.lineTo(d + high, y);
  }
  ctx.stroke();
  ctx.restore();
}

function blit(ctx, rows, columns, x, y, w, high, scale = { most, brightness }) {
  if (rows.length === 0) return;
  const small = make("canvas", { width: columns, height: rows.length });
  small.getContext("2d").putImageData(new ImageData(image(rows, columns, { ...scale, mode: mode() }), columns, rows.length), 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(small, x, y, w, high);
}

function heat(panel, wide) {
  const n = panel.parts[0].trace.partitions.length;
  const [own, fine] = n <= 6 ? [18, 26] : n <= 12 ? [12, 14] : [7, 8];
  const bandOf = (p) => ({ y: p * (own + fine + 4), whole: own + fine });
  const high = n * (own + fine + 4) + 18;
  const [e, ctx] = canvas(wide, high);
  const all = places(panel, wide);
  for (const { part, x, w, long } of all)
    part.trace.partitions.forEach((partition, p) => {
      const { y } = bandOf(p);
      const columns = partition.rus.length;
      blit(ctx, [partition.rus], columns, x, y, w, own);
      partition.throttled.forEach((v, c) => v > 0 && hatch(ctx, x + (c * w) / columns, y, w / columns, own));
      blit(ctx, (partition.keys ?? []).map((k) => k.rus), columns, x, y + own, w, fine);
      ctx.strokeStyle = colour("--border");
      ctx.strokeRect(x + 0.5, y + 0.5, w - 1, own + fine - 1);
    });
  axes(ctx, all, high, n, bandOf);
  e.addEventListener("pointermove", (event) => {
    const at = all.find(({ x, w }) => event.offsetX >= x && event.offsetX < x + w);
    const p = Math.floor(event.offsetY / (own + fine + 4));
    const partition = at?.part.trace.partitions[p];
    if (!partition) return tip(null);
    const c = Math.min(partition.rus.length - 1, Math.floor(((event.offsetX - at.x) / at.w) * partition.rus.length));
    const down = event.offsetY - bandOf(p).y - own;
    const keys = partition.keys ?? [];
    const key = keys[Math.floor((down / fine) * keys.length)];
    const lines = [`physical partition ${p}, from ${time(c * at.part.trace.step)} on`,
      `${amount(partition.rus[c])} RU/s of ${amount(at.part.budget)}`, `${amount(partition.throttled[c])} answers 429 a second`];
    if (down >= 0 && key) lines.unshift(`key ${key.name}: ${amount(key.rus[c])} RU/s`);
    tip(lines.join("\n"), event);
  });
  e.addEventListener("pointerleave", () => tip(null));
  const { hottest } = panel.parts.at(-1);
  label(e, `${panel.name}. Hottest physical partition over the mean: ${panel.parts.map((p) => p.hottest.toFixed(2)).join(", then ")}.`);
  return figure(panel, e, panel.parts.length > 1
    ? `hottest ${panel.parts[0].hottest.toFixed(2)} × the mean, then ${hottest.toFixed(2)}; column: ${time(panel.parts[0].trace.step)}`
    : `hottest ${hottest.toFixed(2)} × the mean; column: ${time(panel.parts[0].trace.step)}`);
}

// even draws the load of each physical partition over the mean of all in its column, so that pale pictures show it too.
const hottestOf = (o) => Math.max(...o.panels.flatMap((p) => p.parts).flatMap(({ trace }) => trace.stored.map((_, c) => overMean(trace, c)).flat()));
const overMean = ({ partitions }, c) => {
  const sum = partitions.reduce((all, { rus }) => all + rus[c], 0);
  return partitions.map(({ rus }) => (sum > 0 ? (rus[c] * partitions.length) / sum : 0));
};

function even(panel, wide, o) {
  const { trace, hottest } = panel.parts.at(-1);
  const n = trace.partitions.length;
  const band = n <= 12 ? 16 : 9;
  const bandOf = (p) => ({ y: p * (band + 2), whole: band });
  const [e, ctx] = canvas(wide, n * (band + 2) + 18);
  const all = places({ parts: [panel.parts.at(-1)] }, wide);
  const columns = trace.stored.map((_, c) => overMean(trace, c));
  for (let p = 0; p < n; p++)
    blit(ctx, [columns.map((v) => v[p])], columns.length, all[0].x, bandOf(p).y, all[0].w, band, { most: hottestOf(o), brightness: 0 });
  axes(ctx, all, n * (band + 2) + 18, n, bandOf);
  const words = `hottest over the mean: ${panel.parts.at(-1).days?.map((d) => d.toFixed(2)).join(", then ") ?? hottest.toFixed(2)}`;
  label(e, `${panel.name}: ${words}.`);
  return figure(panel, e, words);
}

const fates = ["stored at once", "stored late, after a 429", "not accepted: each attempt answered 429"];
const fateInk = () => [colour("--good"), colour("--warn"), colour("--bad")];

function mark(ctx, fate, x, y) {
  ctx.strokeStyle = ctx.fillStyle = fateInk()[fate];
  ctx.lineWidth = 1.3;
  ctx.beginPath();
  if (fate === 0) {
    ctx.arc(x, y, 1.7, 0, 7);
    ctx.fill();
  } else if (fate === 1) {
    ctx.arc(x, y, 2.3, 0, 7);
    ctx.stroke();
  } else {
    ctx.moveTo(x - 2.4, y - 2.4);
    ctx.lineTo(x + 2.4, y + 2.4);
    ctx.moveTo(x + 2.4, y - 2.4);
    ctx.lineTo(x - 2.4, y + 2.4);
    ctx.stroke();
  }
}

function fate(panel, wide) {
  const n = panel.parts[0].trace.partitions.length;
  const band = n <= 6 ? 34 : n <= 12 ? 22 : 14;
  const bandOf = (p) => ({ y: p * (band + 4), whole: band });
  const high = n * (band + 4) + 18;
  const [e, ctx] = canvas(wide, high);
  const all = places(panel, wide);
  const counts = [0, 0, 0];
  for (const { part, x, w, long } of all) {
    ctx.strokeStyle = colour("--border");
    for (let p = 0; p < n; p++) ctx.strokeRect(x + 0.5, bandOf(p).y + 0.5, w - 1, band - 1);
    (part.trace.marks ?? []).forEach(([at, p, f], i) => {
      counts[f]++;
      mark(ctx, f, x + 3 + (Math.min(at / long, 1)) * (w - 6), bandOf(p).y + 4 + ((i * 0.618034) % 1) * (band - 8));
    });
  }
  axes(ctx, all, high, n, bandOf);
  const sum = Math.max(1, counts[0] + counts[1] + counts[2]);
  const share = (c) => `${Math.round((100 * c) / sum)} %`;
  const words = `of ${sum} readings ${share(counts[0])} at once, ${share(counts[1])} late, ${share(counts[2])} not accepted`;
  label(e, `${panel.name}: ${words}.`);
  return figure(panel, e, words);
}

function label(e, text) {
  e.setAttribute("role", "img");
  e.setAttribute("aria-label", text);
}

function figure(panel, e, note) {
  return make("figure", {}, make("figcaption", {}, make("b", {}, panel.name), make("small", {}, note)), e);
}

function tip(text, event) {
  const e = document.getElementById("tip");
  e.hidden = !text;
  if (!text) return;
  e.textContent = text;
  const left = event.clientX + 14 + e.offsetWidth > innerWidth ? event.clientX - e.offsetWidth - 10 : event.clientX + 14;
  e.style.left = `${Math.max(4, left)}px`;
  e.style.top = `${Math.min(event.clientY + 12, innerHeight - e.offsetHeight - 6)}px`;
}

// --- curves

const axis = (more) => ({ stroke: colour("--muted"), grid: { stroke: palette(mode()).grid }, ticks: { stroke: palette(mode()).grid }, ...more });

// over draws curves of a panel over time, the parts one after the other.
function over(panel, wide, top, note, names) {
  const xs = [];
  const ys = names.map(() => []);
  let from = 0;
  const starts = [];
  for (const { trace } of panel.parts) {
    starts.push(from);
    trace.stored.forEach((_, i) => {
      xs.push(from + i * trace.step);
      names.forEach(([name], k) => ys[k].push(trace[name][i]));
    });
    from += trace.stored.length * trace.step;
  }
  const holder = make("div");
  const inks = palette(mode());
  new uPlot({
    width: wide, height: 140, legend: { show: false }, cursor: { show: false },
    scales: { x: { time: false, range: () => [0, from] }, y: { range: () => [0, top] } },
    axes: [axis({ size: 28, values: (_, all) => all.map((v) => (v % 60 === 0 || from < 60 ? time(v) : "")), incrs: [10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 43200], space: 60 }),
      axis({ size: 46, values: (_, all) => all.map(amount) })],
    series: [{}, ...names.map(([, dash, n]) => ({ stroke: inks.series[n], width: dash ? 1.5 : 2, dash, points: { show: false } }))],
    hooks: { draw: [(u) => {
      for (const at of starts.slice(1)) {
        const x = u.valToPos(at, "x", true);
        u.ctx.save();
        u.ctx.strokeStyle = colour("--text");
        u.ctx.setLineDash([6, 5]);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
        u.ctx.restore();
      }
    }] },
  }, [xs, ...ys], holder);
  return figure(panel, holder, note);
}

const mean = (all) => all.reduce((a, b) => a + b, 0) / Math.max(1, all.length);

function stored(panel, wide, o) {
  const top = 1.15 * Math.max(...o.panels.flatMap((p) => p.parts).flatMap(({ trace }) => [...trace.stored, ...trace.offered]));
  const words = panel.parts.map(({ trace }) => `${amount(mean(trace.stored))} of ${amount(mean(trace.offered))}`);
  return over(panel, wide, top, `${words.join(", then ")} readings/s stored`, [["offered", [4, 4], 1], ["stored", undefined, 0]]);
}

function waited(panel, wide, o) {
  const top = 1.1 * Math.max(1, ...o.panels.flatMap((p) => p.parts).flatMap(({ trace }) => trace.waited));
  const longest = Math.max(...panel.parts.flatMap(({ trace }) => trace.waited));
  return over(panel, wide, top, longest > 0 ? `up to ${amount(longest)} s` : "no write waited", [["waited", undefined, 0]]);
}

function bars(o) {
  const top = Math.max(...o.costs.flatMap((c) => [c.bought, c.enough ?? 0]));
  const row = (name, what, value, kind) => make("tr", {}, ...(name ? [make("th", { scope: "rowgroup", rowSpan: 2 }, name)] : []),
    make("td", {}, what),
    make("td", { className: value === null ? "dollars none" : "dollars" }, value === null ? "not sold" : dollars(value)),
    make("td", {}, (() => {
      const bar = make("div", { className: `bar ${kind}` });
      bar.style.width = `${value === null ? 0 : Math.max(0.5, (100 * value) / top)}%`;
      return bar;
    })()));
  return make("table", {}, make("tbody", {}, ...o.costs.flatMap((c) => [row(c.name, "bought", c.bought, ""),
    row("", "enough", c.enough, "enough")])));
}

// --- legends

function scale() {
  const [e, ctx] = canvas(220, 12);
  const table = colours(mode());
  for (let i = 0; i < 220; i++) {
    const [r, g, b] = table[Math.round((i / 219) * (table.length - 1))];
    ctx.fillStyle = `rgb(${r},${g},${b})`;
    ctx.fillRect(i, 0, 1, 12);
  }
  const [h, over] = canvas(26, 12);
  const [r, g, b] = table.at(-1);
  over.fillStyle = `rgb(${r},${g},${b})`;
  over.fillRect(0, 0, 26, 12);
  hatch(over, 0, 0, 26, 12);
  return [make("span", {}, "0", e, `${amount(most)} RU/s, half way ${amount(valueAt(0.5, most, brightness))}`),
    make("span", {}, h, "answers 429"), make("span", {}, "┆ the balancer's epochs begin")];
}

function fateLegend() {
  return fates.map((text, f) => {
    const [e, ctx] = canvas(14, 12);
    mark(ctx, f, 7, 6);
    e.style.border = "0";
    return make("span", {}, e, text);
  });
}

// --- all of it

function draw() {
  outcomes.forEach((o, i) => {
    const section = document.getElementById(`outcome-${i}`);
    const into = (name, children) => section.querySelector(name).replaceChildren(...children);
    into(".legend", scale());
    into(".fates", fateLegend());
    for (const [name, what] of Object.entries({ heat, even, fate, stored, waited })) {
      const grid = section.querySelector(`.grid.${name}`);
      if (!grid) continue;
      const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
      const wide = Math.floor((grid.clientWidth - 12 * (columns - 1)) / columns) - 22;
      grid.replaceChildren(...o.panels.map((p) => what(p, wide, o)));
    }
    into(".bars", [bars(o)]);
  });
}

let drawnFor = 0;
system.addEventListener("change", draw);
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === drawnFor) return;
  drawnFor = contentRect.width;
  draw();
}).observe(document.querySelector("main"));
