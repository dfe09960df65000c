// Accuracy over samples and over time, of forecasts with their intervals and of runs that were measured.

/** Of one strategy's forecast, as `rehearse.forecast/1` and a report's `accuracy` have it. */
function forecastSeries(told, name = told.name) {
  return {
    name,
    points: told.curve.map((point) => ({
      samples: point.samples, time: point.time_s, y: point.accuracy, low: point.accuracy_interval?.[0], high: point.accuracy_interval?.[1],
    })),
  };
}

/** Of a curve file (`rehearse.curve/1`). */
function measuredSeries(curve, name, group) {
  return {
    name, group,
    points: curve.points.map((point) => ({ samples: point.samples, time: point.time_s, y: point.test_accuracy })),
    look: group ? { borderWidth: 1, pointRadius: 0, borderDash: [2, 3] } : { borderWidth: 1.5, pointRadius: 2 },
  };
}

function learningCurve(title, description, series, abscissa) {
  const placed = series.map(({ points, ...rest }) => ({
    ...rest, points: points.map(({ y, low, high, ...point }) => ({ x: point[abscissa.key], y, low, high })).filter(({ x }) => x !== null && x !== undefined),
  })).filter(({ points }) => points.length > 0);
  if (placed.length === 0) return null;
  const most = Math.max(...placed.flatMap(({ points }) => points.map(({ x }) => x)));
  return figure({
    title, description, height: 360,
    config: (theme) => lineChart(theme, {
      series: placed.map((one) => ({ ...one, look: { pointRadius: 2, ...one.look } })),
      x: { title: abscissa.title, format: abscissa.format, most, min: 0, max: most },
      y: { title: "accuracy", format: "percent", min: 0, max: 1 },
    }),
    table: () => table(title, [
      { title: "strategy", value: (row) => row.name },
      { title: abscissa.title, value: (row) => row.x, format: abscissa.format },
      { title: "accuracy", value: (row) => row.y, format: "percent" },
      rangeColumn("90 % interval", endsOf, "percent"),
    ], placed.flatMap(({ name, points }) => points.map((point) => ({ name, ...point })))),
  });
}

function learningCurves(series, about = "Lines are expected accuracies on test data; bands hold 90 %.") {
  return chartGrid(
    learningCurve("Accuracy over time", about, series, { key: "time", title: "time of training", format: "time" }),
    learningCurve("Accuracy over samples", about, series, { key: "samples", title: "samples trained with", format: "number" }));
}
