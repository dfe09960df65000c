// Configurations of Chart.js: lines with bands, bars with intervals, bars whose parts add up.

/**
 * Lines over a numeric or a category axis, each with its interval as a band.
 * series: [{name, points: [{x, y, low?, high?}], look?, group?}]: a group is one entry of the legend.
 */
function lineChart(theme, { series, x, y }) {
  const bands = series.filter(({ points: all }) => all.some((point) => point.low !== undefined)).length;
  const shade = bands <= 2 ? "2e" : bands <= 5 ? "1f" : "12";
  const datasets = series.flatMap(({ name, points: all, look, group = name }, index) => {
    const isOneOfMany = group !== name;
    const style = { ...seriesLook(theme, index), ...(isOneOfMany ? { borderColor: theme.faint, backgroundColor: theme.faint } : {}), ...look };
    const hasBand = all.some((point) => point.low !== undefined);
    const edge = (end, fill) => ({
      label: `${name}, ${end}`, group, isBand: true, data: all.map((point) => ({ x: point.x, y: point[end] ?? point.y })),
      borderWidth: 0, pointRadius: 0, pointHitRadius: 0, fill, backgroundColor: `${style.borderColor}${shade}`, swatch: style.borderColor,
    });
    const line = {
      label: name, group, data: all.map((point) => ({ ...point })), borderWidth: 2, fill: false, pointRadius: 4, pointHitRadius: 8, ...style,
    };
    return hasBand ? [line, edge("low", false), edge("high", "-1")] : [line];
  });
  const label = ({ dataset, raw }) => {
    const interval = raw.low === undefined ? "" : ` (90 %: ${show(raw.low, y.format)} to ${show(raw.high, y.format)})`;
    return `${dataset.label}: ${show(raw.y, y.format)}${interval}`;
  };
  return {
    type: "line",
    data: { datasets },
    options: {
      interaction: { mode: "nearest", axis: "xy", intersect: false },
      scales: { x: x.labels ? categories(theme, x.labels, { title: x.title, offset: true }) : axis(theme, x), y: axis(theme, y) },
      plugins: { tooltip: { filter: ({ dataset }) => !dataset.isBand, callbacks: {
        title: ([item]) => (item ? `${x.title}: ${x.labels ? item.label : show(item.raw.x, x.format)}` : ""),
        label,
      } } },
    },
  };
}

/** Writes beside a point what it is marked as: "fastest". */
function markLabels(theme) {
  return {
    id: "marks",
    afterDatasetsDraw(chart) {
      const { ctx, data, chartArea } = chart;
      ctx.save();
      ctx.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
      ctx.textBaseline = "bottom";
      data.datasets.forEach((dataset, index) => {
        if (dataset.isBand || !chart.isDatasetVisible(index)) return;
        chart.getDatasetMeta(index).data.forEach((place, i) => {
          const text = (dataset.data[i].marks ?? []).join(", ");
          if (!text) return;
          const width = ctx.measureText(text).width;
          const x = Math.min(Math.max(place.x - width / 2, chartArea.left), chartArea.right - width);
          ctx.lineWidth = 3;
          ctx.strokeStyle = theme.page;
          ctx.fillStyle = theme.text;
          ctx.strokeText(text, x, Math.max(place.y - 8, chartArea.top + 14));
          ctx.fillText(text, x, Math.max(place.y - 8, chartArea.top + 14));
        });
      });
      ctx.restore();
    },
  };
}

/** From a start to an end by steps, each a bar that begins where the one before it ends. steps: [{name, value}]. */
function waterfallChart(theme, { start, steps, end, x }) {
  let at = start.value;
  const bars = [{ name: start.name, range: [0, start.value], color: theme.compute },
    ...steps.map(({ name, value }) => {
      const range = [at, at + value];
      at += value;
      return { name, range, color: value < 0 ? theme.good : theme.exposed };
    }), { name: end.name, range: [0, end.value], color: theme.idle }];
  const names = bars.map((_, index) => `${index}`);
  return {
    type: "bar",
    data: { datasets: [{ label: x.title, data: bars.map((bar, i) => ({ x: bar.range, y: names[i] })), backgroundColor: bars.map(({ color }) => color),
      grouped: false, maxBarThickness: 22, minBarLength: 2 }] },
    options: {
      indexAxis: "y",
      scales: {
        x: axis(theme, { most: Math.max(...bars.flatMap(({ range }) => range)), min: 0, ...x }),
        y: { ...categories(theme, names), ticks: { color: theme.text, autoSkip: false, callback(_, i) { return tickText(this, bars[i].name); } } },
      },
      plugins: { tooltip: { callbacks: { title: ([item]) => bars[item.dataIndex].name,
        label: ({ dataIndex }) => show(bars[dataIndex].range[1] - bars[dataIndex].range[0], x.format) } } },
    },
  };
}

/**
 * Horizontal bars by name. bars: [{name, value, low?, high?}]; with intervals a thin line over each, and no bar at all where
 * `pointsOnly`, for comparisons that are not with zero. tone(bar): its color.
 */
function barChart(theme, { bars, x, label = x.title, pointsOnly = false, tone = () => theme.compute }) {
  const names = bars.map((bar, index) => `${index}`);  // positions: names may repeat
  const ranges = bars.some((bar) => bar.low !== undefined);
  const datasets = [];
  if (ranges) {
    datasets.push({ label: "90 % interval", data: bars.map((bar, i) => ({ x: [bar.low ?? bar.value, bar.high ?? bar.value], y: names[i] })),
      backgroundColor: `${theme.faint}aa`, barThickness: 4, grouped: false, borderRadius: 2 });
    datasets.push({ label, type: "scatter", data: bars.map((bar, i) => ({ x: bar.value, y: names[i] })), order: -1,
      backgroundColor: bars.map(tone), borderColor: theme.page, pointRadius: 6, swatch: theme.compute });
  }
  if (!pointsOnly) {
    datasets.push({ label: ranges ? `${label}, from zero` : label, data: bars.map((bar, i) => ({ x: bar.value, y: names[i] })),
      backgroundColor: bars.map((bar) => `${tone(bar)}${ranges ? "55" : ""}`), grouped: false, maxBarThickness: 22, swatch: theme.compute, order: 2 });
  }
  return {
    type: "bar",
    data: { datasets },
    options: {
      indexAxis: "y",
      scales: {
        x: axis(theme, { most: Math.max(0, ...bars.map((bar) => bar.high ?? bar.value)), beginAtZero: !pointsOnly, ...x }),
        y: { ...categories(theme, names), ticks: { color: theme.text, autoSkip: bars.length > 40, callback(_, i) { return tickText(this, bars[i].name); } } },
      },
      plugins: { tooltip: { callbacks: { title: ([item]) => bars[item.dataIndex].name, label: ({ dataIndex }) => {
        const bar = bars[dataIndex];
        const interval = bar.low === undefined ? "" : ` (90 %: ${show(bar.low, x.format)} to ${show(bar.high, x.format)})`;
        return `${label}: ${show(bar.value, x.format)}${interval}`;
      } } } },
    },
  };
}

/** Bars whose parts add up. rows: [name]; parts: [{name, color, values by row}]. */
function stackedBars(theme, { rows, parts, x }) {
  const most = Math.max(...rows.map((_, row) => parts.reduce((sum, part) => sum + (part.values[row] ?? 0), 0)));
  return {
    type: "bar",
    data: { labels: rows, datasets: parts.map((part) => ({ label: part.name, data: part.values, backgroundColor: part.color,
      borderColor: theme.page, borderWidth: { right: 1 }, maxBarThickness: 34 })) },
    options: {
      indexAxis: "y",
      scales: {
        x: { ...axis(theme, { ...x, most }), stacked: true, max: rows.length === 1 ? most : undefined },
        y: { ...categories(theme, rows), stacked: true, display: rows.length > 1 },
      },
      plugins: { tooltip: { callbacks: { label: ({ dataset, raw }) => `${dataset.label}: ${show(raw, x.format)}` } } },
    },
  };
}
