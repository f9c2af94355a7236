// Positions of devices on a plain grid of degrees: no map of anybody's is loaded.

/** axes are the names that metrics with positions have. */
const axes = [
  ["latitude", "longitude"],
  ["lat", "lon"],
  ["lat", "lng"],
];

/** positionMetrics returns the metrics that say where devices are, as [latitude, longitude]; null if there are none. */
export function positionMetrics(metrics) {
  const numeric = metrics.filter((m) => m.types.some((t) => t === "float" || t === "int")).map((m) => m.metric);
  return axes.find((pair) => pair.every((m) => numeric.includes(m))) ?? null;
}

/** placed returns {lat, lon} by device, of newest values; what is no place on Earth is left out. */
export function placed(latest, [latitude, longitude]) {
  const found = new Map();
  for (const { device, metric, value } of latest) {
    if (typeof value !== "number") continue;
    if (!found.has(device)) found.set(device, {});
    if (metric === latitude && Math.abs(value) <= 90) found.get(device).lat = value;
    if (metric === longitude && Math.abs(value) <= 180) found.get(device).lon = value;
  }
  for (const [device, at] of found) if (at.lat === undefined || at.lon === undefined) found.delete(device);
  return found;
}

const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30];

/**
 * frame returns the part of the Earth that places lie in, for a picture of so many pixels: {x(lon), y(lat), step,
 * lats, lons}, with the degrees at which lines are drawn. A degree of longitude is as wide as it is in the middle.
 */
export function frame(places, { width, height }) {
  const bounds = (of) => [Math.min(...places.map(of)), Math.max(...places.map(of))];
  const [south, north] = places.length ? bounds((p) => p.lat) : [-60, 70];
  const [west, east] = places.length ? bounds((p) => p.lon) : [-180, 180];
  const middle = (south + north) / 2;
  const squeeze = Math.max(0.2, Math.cos((middle * Math.PI) / 180));
  const margin = 34;
  const tall = Math.max(north - south, 0.004);
  const wide = Math.max((east - west) * squeeze, 0.004);
  const scale = Math.min((width - 2 * margin) / wide, (height - 2 * margin) / tall);
  const x = (lon) => width / 2 + (lon - (west + east) / 2) * squeeze * scale;
  const y = (lat) => height / 2 - (lat - middle) * scale;
  const step = steps.find((s) => s * scale >= 60) ?? 30;
  const lines = (low, high) => {
    const out = [];
    for (let n = Math.ceil(low / step); n * step <= high && out.length < 60; n++) out.push(Number((n * step).toFixed(3)));
    return out;
  };
  const half = { lat: height / 2 / scale, lon: width / 2 / scale / squeeze };
  const centre = (west + east) / 2;
  return {
    x,
    y,
    step,
    lats: lines(Math.max(-90, middle - half.lat), Math.min(90, middle + half.lat)),
    lons: lines(Math.max(-180, centre - half.lon), Math.min(180, centre + half.lon)),
  };
}

/** degrees writes a latitude or longitude: "53.5° N". */
export function degrees(value, [positive, negative]) {
  return `${Math.abs(value)}° ${value >= 0 ? positive : negative}`;
}
