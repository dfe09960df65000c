// Pictures of many points, which sweeps and plans share. A point: {name, labels: {axis: label}, value(key), interval(key), fits}.

const metrics = [
  { key: "step_time_s", title: "step time", format: "time", better: "less" },
  { key: "samples_per_s", title: "throughput", format: "rate", better: "more" },
  { key: "train_time_s", title: "training", format: "time", better: "less" },
  { key: "epoch_time_s", title: "epoch", format: "time", better: "less" },
  { key: "cost.usd", title: "cost", format: "usd", better: "less" },
  { key: "usd", title: "cost", format: "usd", better: "less" },
  { key: "cost.energy_kwh", title: "energy", format: "energy", better: "less" },
  { key: "energy_kwh", title: "energy", format: "energy", better: "less" },
  { key: "cost.co2_kg", title: "CO2", format: "mass", better: "less" },
  { key: "co2_kg", title: "CO2", format: "mass", better: "less" },
  { key: "gpus", title: "GPUs", format: "number", better: "less" },
  { key: "goodput.share", title: "goodput", format: "percent", better: "more" },
  { key: "memory.used_bytes", title: "memory of a GPU", format: "bytes", better: "less" },
  { key: "memory_bytes", title: "memory", format: "bytes", better: "less" },
  { key: "staleness.mean", title: "staleness, mean", format: "updates", better: "less" },
  { key: "accuracy.accuracy", title: "accuracy", format: "percent", better: "more" },
  { key: "accuracy", title: "accuracy", format: "percent", better: "more" },
  { key: "gpu_utilization", title: "GPU utilization", format: "percent", better: "more" },
  { key: "mfu", title: "model FLOPs utilization", format: "percent", better: "more" },
];
const kMostSeries = 10;
const kMostBars = 40;

function isKnown(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function knownMetrics(points) {
  return metrics.filter(({ key }) => points.some((point) => isKnown(point.value(key))));
}

const labelUnits = {
  "": 1, ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10,
  MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, bps: 1, kbps: 1e3, Mbps: 1e6, Gbps: 1e9, Tbps: 1e12, MBps: 8e6, GBps: 8e9,
};

/** The number that a label begins with, in its unit; NaN where it is none. */
function labelNumber(label) {
  const [, digits, unit] = /^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([A-Za-z]*)$/.exec(label) ?? [];
  return digits !== undefined && unit in labelUnits ? Number(digits) * labelUnits[unit] : NaN;
}

/** "ddp, nodes 4": labels that are numbers say of what. */
function nameOf(labels, axes = Object.keys(labels)) {
  return axes.map((name) => (/^\d/.test(labels[name]) ? `${name.split(".").at(-1)} ${labels[name]}` : labels[name])).join(", ");
}

/** The values of an axis in their order: by number where all are numbers. */
function axisValues(points, name) {
  const labels = [...new Set(points.map((point) => point.labels[name]))];
  const numbers = labels.map(labelNumber);
  const isNumeric = numbers.every(Number.isFinite);
  if (isNumeric) labels.sort((a, b) => labelNumber(a) - labelNumber(b));
  return { labels, isNumeric };
}

/** Points that differ on one axis alone, as lines; each with the labels of the others for its name. */
function scalingSeries(points, name, axes, metric) {
  const others = axes.filter((axisName) => axisName !== name && new Set(points.map((point) => point.labels[axisName])).size > 1);
  const series = new Map();
  for (const point of points) {
    const y = point.value(metric.key);
    if (!isKnown(y)) continue;
    const line = nameOf(point.labels, others) || metric.title;
    const [low, high] = point.interval(metric.key) ?? [];
    if (!series.has(line)) series.set(line, []);
    series.get(line).push({ label: point.labels[name], y, low, high, marks: point.marks });
  }
  return [...series].map(([line, all]) => ({ name: line, points: all }));
}

/** Ticks at the axis' own values, under their own labels. */
function labelledTicks(theme, { labels, title, log }) {
  const values = labels.map(labelNumber);
  return {
    ...axis(theme, { title, log }),
    afterBuildTicks: (scale) => { scale.ticks = values.map((value) => ({ value })); },
    ticks: { color: theme.faint, maxRotation: 0, autoSkip: true, autoSkipPadding: 8, callback: (value) => labels[values.indexOf(value)] ?? "" },
  };
}

/** Curves over an axis that the reader chooses, of a metric that the reader chooses. Returns {root, show(points)}. */
function scalingFigure(allPoints, axes) {
  const varied = axes.filter((name) => new Set(allPoints.map((point) => point.labels[name])).size > 1);
  const known = knownMetrics(allPoints);
  if (varied.length === 0 || known.length === 0) return null;
  const sizes = varied.map((name) => axisValues(allPoints, name)).map(({ labels, isNumeric }) => (isNumeric ? labels.length : 0));
  let over = varied[sizes.indexOf(Math.max(...sizes))], metric = known[0], points = allPoints;
  const isWide = () => {
    const { labels, isNumeric } = axisValues(allPoints, over);
    const [least, most] = [labelNumber(labels[0]), labelNumber(labels.at(-1))];
    return isNumeric && least > 0 && most >= 16 * least;
  };
  /** Values of more than ten times one another cannot be read off one linear axis. */
  const spreads = () => {
    const values = points.map((point) => point.value(metric.key)).filter(isKnown);
    return Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);
  };
  let logX = isWide(), logY = spreads();
  const logYBox = checkBox("logarithmic metric", logY, (on) => { logY = on; update(); });
  const logXBox = checkBox("logarithmic axis below", logX, (on) => { logX = on; update(); });
  const controls = element("div", { class: "controls" },
    choice("Over", varied, varied.indexOf(over), (index) => {
      over = varied[index];
      logXBox.firstChild.checked = logX = isWide();
      update();
    }),
    choice("Metric", known.map(({ title }) => title), 0, (index) => {
      metric = known[index];
      logYBox.firstChild.checked = logY = spreads();
      update();
    }),
    logXBox, logYBox);
  const content = () => {
    const { labels, isNumeric } = axisValues(points, over);
    const all = scalingSeries(points, over, axes, metric);
    const series = all.slice(0, kMostSeries);
    const title = `${metric.title[0].toUpperCase()}${metric.title.slice(1)} over ${over}`;
    const place = (label) => (isNumeric ? labelNumber(label) : label);
    const order = (a, b) => labels.indexOf(a.label) - labels.indexOf(b.label);
    const placed = ({ label, y, low, high, marks }) => ({ x: place(label), y, low, high, marks });
    const most = Math.max(...series.flatMap(({ points: line }) => line.map(({ y, high }) => high ?? y)));
    return {
      title,
      description: "Bands are 90 % intervals." +
        (all.length > series.length ? ` ${series.length} of ${all.length} lines are drawn; the filter of the table chooses others.` : ""),
      config: (theme) => {
        const config = lineChart(theme, {
          series: series.map(({ name, points: line }) => ({ name, points: line.toSorted(order).map(placed) })),
          x: isNumeric ? { title: over } : { title: over, labels },
          y: { title: metric.title, format: metric.format, log: logY, most, beginAtZero: true },
        });
        if (isNumeric) config.options.scales.x = labelledTicks(theme, { labels, title: over, log: logX && labelNumber(labels[0]) > 0 });
        const labelOf = (item) => (isNumeric ? labels.find((label) => labelNumber(label) === item.raw.x) : item.label);
        config.plugins = [markLabels(theme)];
        config.options.plugins.tooltip.callbacks.title = ([item]) => (item ? `${over}: ${labelOf(item)}` : "");
        return config;
      },
      table: () => table(title, [
        { title: "line", value: (row) => row.name },
        { title: over, value: (row) => row.label },
        { title: metric.title, value: (row) => row.y, format: metric.format },
        rangeColumn("90 % interval", endsOf, metric.format),
      ], all.flatMap(({ name, points: line }) => line.toSorted(order).map((point) => ({ name, ...point })))),
    };
  };
  const chart = new ChartFigure({ controls, height: 380, ...content() });
  const update = () => chart.update(content());
  return { root: chart.root, show: (left) => { points = left; update(); } };
}

/** Whether `a` is no worse than `b` in both metrics and better in one. */
function dominates(a, b, first, second) {
  const gain = (metric) => (metric.better === "less" ? -1 : 1) * (a.value(metric.key) - b.value(metric.key));
  const gains = [gain(first), gain(second)];
  return gains.every((one) => one >= 0) && gains.some((one) => one > 0);
}

/** Of points that fit: those that no other dominates. Sorted by the first metric, the best of the second so far survive. */
function paretoFront(points, first, second) {
  const sign = (metric) => (metric.better === "less" ? 1 : -1);
  const sorted = points.toSorted((a, b) =>
    sign(first) * (a.value(first.key) - b.value(first.key)) || sign(second) * (a.value(second.key) - b.value(second.key)));
  const front = [];
  for (const point of sorted) {
    if (front.length === 0 || !dominates(front.at(-1), point, first, second) &&
      sign(second) * (point.value(second.key) - front.at(-1).value(second.key)) < 0) front.push(point);
  }
  return front;
}

/** Two metrics against each other. `given`: the front and its metrics, where the document has them. Returns {root, show(points)}. */
function paretoFigure(allPoints, given) {
  const known = knownMetrics(allPoints).filter(({ key }) => new Set(allPoints.map((point) => point.value(key)).filter(isKnown)).size > 1);
  if (known.length < 2) return null;
  const preferred = (keys, otherwise) => known.find(({ key }) => keys.includes(key)) ?? otherwise;
  let first = preferred(given?.metrics.slice(0, 1) ?? ["train_time_s"], known[0]);
  let second = preferred(given?.metrics.slice(1, 2) ?? ["cost.usd", "usd", "accuracy.accuracy", "staleness.mean", "memory.used_bytes"],
    known.find((metric) => metric !== first));
  if (second === first) second = known.find((metric) => metric !== first);
  let points = allPoints;
  const titles = known.map(({ title }) => title);
  const controls = element("div", { class: "controls" },
    choice("Across", titles, known.indexOf(first), (index) => { first = known[index]; update(); }),
    choice("Up", titles, known.indexOf(second), (index) => { second = known[index]; update(); }));
  const content = () => {
    const placed = points.filter((point) => isKnown(point.value(first.key)) && isKnown(point.value(second.key)));
    const isGiven = given && given.front.length > 0 && given.metrics[0] === first.key && given.metrics[1] === second.key;
    const front = (isGiven ? given.front.filter((point) => placed.includes(point)) : paretoFront(placed.filter(({ fits }) => fits !== false), first, second))
      .toSorted((a, b) => a.value(first.key) - b.value(first.key));
    const groups = [["on the front: nothing is better in both", front, "good"],
      ["others", placed.filter((point) => !front.includes(point) && point.fits !== false), "idle"],
      ["does not fit in memory", placed.filter((point) => point.fits === false), "bad"]].filter(([, list]) => list.length > 0);
    const title = `${first.title[0].toUpperCase()}${first.title.slice(1)} against ${second.title}`;
    return {
      title,
      description: `${first.better === "less" ? "Further left" : "Further right"} and ${second.better === "less" ? "lower" : "higher"} is better; ` +
        `${front.length} of ${plural(placed.length, "point")} ${front.length === 1 ? "is" : "are"} on the front.`,
      config: (theme) => ({
        type: "scatter",
        data: { datasets: groups.map(([label, list, color], index) => ({
          label, data: list.map((point) => ({ x: point.value(first.key), y: point.value(second.key), point })),
          backgroundColor: color === "idle" ? "transparent" : theme[color], swatch: theme[color], borderColor: theme[color], showLine: color === "good",
          pointRadius: color === "good" ? 6 : 4, pointStyle: ["circle", "circle", "crossRot"][["good", "idle", "bad"].indexOf(color)], borderWidth: 2, order: index,
        })) },
        options: {
          scales: {
            x: axis(theme, { title: first.title, format: first.format, most: Math.max(...placed.map((point) => point.value(first.key))) }),
            y: axis(theme, { title: second.title, format: second.format, most: Math.max(...placed.map((point) => point.value(second.key))) }),
          },
          plugins: { tooltip: { callbacks: { label: ({ raw }) => `${raw.point.name}: ${show(raw.x, first.format)}, ${show(raw.y, second.format)}` } } },
        },
      }),
      table: () => table(title, [
        { title: "point", value: (point) => point.name },
        { title: first.title, value: (point) => point.value(first.key), format: first.format },
        { title: second.title, value: (point) => point.value(second.key), format: second.format },
        { title: "on the front", value: (point) => front.includes(point), text: (point) => (front.includes(point) ? "yes" : "no") },
      ], placed),
    };
  };
  const chart = new ChartFigure({ controls, height: 380, ...content() });
  const update = () => chart.update(content());
  return { root: chart.root, show: (left) => { points = left; update(); } };
}
