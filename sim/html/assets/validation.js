// The page of a comparison: `rehearse.validation/2`.

function comparedRows(compared) {
  return compared.files.flatMap((file) => file.cases.flatMap((one) => {
    if (one.failure) return [{ file, one, metric: {}, index: 0 }];
    return one.metrics.map((metric, index) => ({ file, one, metric, index }));
  }));
}

function errorsFigure(rows) {
  const bars = rows.filter(({ metric }) => isKnown(metric.relative_error)).slice(0, kMostBars)
    .map(({ one, metric }) => ({ name: one.name, value: metric.relative_error, heldOut: one.held_out }));
  if (bars.length === 0) return null;
  const title = "Errors of the predictions";
  return figure({
    title, description: "Predicted over measured, less one. Faint: the number was an input, from which something unknown was found.",
    height: bars.length * 24 + 70,
    config: (theme) => barChart(theme, {
      bars, x: { title: "error", format: "signedPercent" }, tone: (bar) => (bar.heldOut ? theme.compute : theme.idle),
    }),
    table: () => table(title, [
      { title: "case", value: (bar) => bar.name },
      { title: "error", value: (bar) => bar.value, format: "signedPercent" },
      { title: "counted", value: (bar) => bar.heldOut, text: (bar) => show(bar.heldOut, "yesNo") },
    ], bars),
  });
}

/** Step times on log axes: what lies on the line is predicted as it was measured. */
function timesFigure(rows) {
  const times = rows.filter(({ metric }) => metric.metric === "step_time_s" && metric.measured > 0 && metric.predicted > 0);
  if (times.length < 2) return null;
  const sets = [...new Set(times.map(({ file }) => file.set))];
  const ends = [Math.min, Math.max].map((end) => end(...times.flatMap(({ metric }) => [metric.measured, metric.predicted])));
  const title = "Predicted against measured step times";
  return figure({
    title, description: "On the line both are the same. Each set has a colour of its own.", height: 460,
    config: (theme) => lineChart(theme, {
      series: [
        ...sets.map((set) => ({
          name: set, look: { showLine: false },
          points: times.filter(({ file }) => file.set === set).map(({ metric }) => ({ x: metric.measured, y: metric.predicted })),
        })),
        { name: "the same", look: { pointRadius: 0, borderColor: theme.faint, borderWidth: 1 }, points: ends.map((end) => ({ x: end, y: end })) },
      ],
      x: { title: "measured", format: "time", log: true },
      y: { title: "predicted", format: "time", log: true },
    }),
    table: () => table(title, [
      { title: "set", value: ({ file }) => file.set },
      { title: "case", value: ({ one }) => one.name },
      { title: "measured", value: ({ metric }) => metric.measured, format: "time" },
      { title: "predicted", value: ({ metric }) => metric.predicted, format: "time" },
    ], times),
  });
}

function scoresTable(title, lines) {
  return table(title, [
    { title: "GPU", value: (row) => row.gpu },
    { title: "framework", value: (row) => row.framework },
    { title: "strategy", value: (row) => row.strategy },
    { title: "cases", value: (row) => row.cases, format: "whole" },
    ...["mean", "median", "p90", "most"].map((key) => ({ title: key, value: (row) => row[key], format: "percent" })),
    { title: "bias", value: (row) => row.bias, format: "signedPercent" },
    { title: "inside", value: ({ coverage: { inside, intervals } }) => (intervals > 0 ? inside / intervals : null), format: "percent" },
    { title: "half-width", value: (row) => row.half_width, format: "percent" },
    { title: "interval score", value: (row) => row.interval_score, format: "number" },
  ], lines);
}

function outliersTable(outliers) {
  return table("Outside of their intervals, the farthest", [
    { title: "set", value: (row) => row.set },
    { title: "case", value: (row) => row.case },
    { title: "metric", value: (row) => row.metric },
    { title: "error", value: (row) => row.error, format: "signedPercent" },
    { title: "cause", value: (row) => row.cause || "not known" },
  ], outliers);
}

function accuracyFigure(rows) {
  const bars = rows.filter(({ metric }) => isKnown(metric.points)).slice(0, kMostBars)
    .map(({ one, metric }) => ({ name: `${one.name}, ${metric.by}`, value: metric.points }));
  if (bars.length === 0) return null;
  const title = "Errors of accuracy in the end";
  return figure({
    title, description: "Foretold less real, in points, of the runs that train on either side.",
    height: bars.length * 24 + 70,
    config: (theme) => barChart(theme, { bars, x: { title: "points", format: "number" }, tone: () => theme.compute }),
    table: () => table(title, [
      { title: "case", value: (bar) => bar.name },
      { title: "points", value: (bar) => bar.value, format: "number" },
    ], bars),
  });
}

/** A number, or of a verdict what became of the run. */
function outcomeColumn(title, member, keyOf) {
  const numbers = mixedColumn(title, ({ metric }) => metric[member], keyOf);
  const outcomes = (metric) => (metric.metric === "memory.fits" ? ["does not fit", "fits"] : ["trains", "diverges"]);
  const words = (metric) => (member === "predicted" && metric.verdict) || outcomes(metric)[Number(metric[member])];
  return { ...numbers, text: (row) => (typeof row.metric[member] === "boolean" ? words(row.metric) : numbers.text(row)) };
}

function comparisonTable(rows) {
  const keyOf = ({ metric }) => metric.metric ?? "";
  return table("Predicted and measured", [
    { title: "case", value: ({ one }) => one.name },
    { title: "strategy", value: ({ one }) => one.strategy },
    { title: "metric", value: ({ metric }) => metric.metric ?? "" },
    { title: "by", value: ({ metric }) => metric.by ?? "" },
    outcomeColumn("predicted", "predicted", keyOf),
    rangeColumn("90 % interval", ({ metric }) => metric.interval, (row) => formatOf(keyOf(row))),
    outcomeColumn("measured", "measured", keyOf),
    { title: "error", key: "relative_error", format: "signedPercent", value: ({ metric }) => metric.relative_error ?? null },
    { title: "difference", key: "difference", format: "number", value: ({ metric }) => metric.difference ?? null },
    { title: "distance", key: "distance", format: "number", value: ({ metric }) => metric.distance ?? null },
    { title: "inside", value: ({ metric }) => metric.inside ?? null, text: ({ metric }) => show(metric.inside, "yesNo") },
    { title: "off by, points", key: "points", format: "number", value: ({ metric }) => metric.points ?? null },
    { title: "odds to fail", key: "failure_probability", format: "percent", value: ({ metric }) => metric.failure_probability ?? null },
    { title: "verdict right", value: ({ metric }) => metric.right ?? null, text: ({ metric }) => show(metric.right, "yesNo") },
    { title: "note", value: ({ one }) => one.failure || one.note || (one.held_out ? "" : "not counted") },
  ], rows, { rowKey: (row) => rows.indexOf(row) });
}

function notPredicted({ source, not_predicted: others }) {
  if (!others) return [];
  return [paragraph(`${others.why[0].toUpperCase()}${others.why.slice(1)}.`), table(`${source}: published, not predicted`, [
    { title: "case", value: (row) => row.name },
    { title: "metric", value: (row) => row.metric },
    mixedColumn("published", (row) => row.published, (row) => row.metric),
    { title: "predicted", value: () => "unknown" },
  ], others.cases)];
}

function accuracyTable(accuracy) {
  const share = (title, member, inside, all) => ({
    title,
    value: (row) => (row[member][all] > 0 ? row[member][inside] / row[member][all] : null),
    text: (row) => (row[member][all] > 0 ? `${row[member][inside]} of ${row[member][all]}` : ""),
  });
  return table("Errors of accuracy in the end, of the runs that train", [
    { title: "group", value: (row) => row.group },
    { title: "by", value: (row) => row.by },
    { title: "runs", value: (row) => row.runs, format: "whole" },
    { title: "mean, points", value: (row) => (row.runs > 0 ? row.mean_points : null), format: "number" },
    { title: "largest, points", value: (row) => (row.runs > 0 ? row.max_points : null), format: "number" },
    share("ends inside", "coverage", "inside", "intervals"),
    share("points of curves inside", "curve_coverage", "inside", "intervals"),
    share("verdicts right", "verdicts", "right", "all"),
  ], accuracy);
}

/** "3 of 8" */
const failedText = ({ failed }) => `${failed.some} of ${failed.all}`;

function settingsTable(settings) {
  const ends = (title, member) => [
    { title: `real, ${title}`, value: (row) => row.real[member]?.mean ?? null, format: "percent" },
    { title: `replays, ${title}`, value: (row) => row.replays[member]?.mean ?? null, format: "percent" },
  ];
  return table("Real runs beside replays of their simulations", [
    { title: "setting", value: (row) => row.setting },
    { title: "real fail", value: (row) => failedText(row.real) },
    { title: "replays fail", value: (row) => failedText(row.replays) },
    { title: "p of the same share", value: (row) => row.same_failures, format: "number" },
    ...ends("all", "all"), ...ends("trained", "trained"),
  ], settings);
}

function failuresTable(failures) {
  return table("Verdicts of forecasts beside what failed", [
    { title: "verdict", value: (row) => row.verdict },
    { title: "runs", value: (row) => row.runs, format: "whole" },
    { title: "expected to fail", value: (row) => row.expected_to_fail, format: "number" },
    { title: "standard deviation", value: (row) => row.standard_deviation, format: "number" },
    { title: "failed", value: (row) => row.failed, format: "whole" },
  ], failures);
}

function validationPage(compared) {
  const rows = comparedRows(compared);
  const { time, memory, outliers } = compared.scoreboard;
  if (time.length > 0) addSection("Times", scoresTable("Times by GPU, framework and strategy", time), timesFigure(rows));
  if (memory.length > 0) addSection("Memory", scoresTable("Memory by GPU, framework and strategy", memory));
  if (outliers.length > 0) addSection("Outliers", outliersTable(outliers));
  addSection("How far off", table("Relative errors, inputs not counted", [
    { title: "group", value: (row) => row.group },
    { title: "strategy", value: (row) => row.strategy },
    { title: "numbers", value: (row) => row.numbers, format: "whole" },
    { title: "mean", value: (row) => row.mean, format: "percent" },
    { title: "median", value: (row) => row.median, format: "percent" },
    { title: "largest", value: (row) => row.max, format: "percent" },
  ], compared.relative_errors), errorsFigure(rows));
  if (compared.accuracy?.length > 0) addSection("Accuracy", accuracyTable(compared.accuracy), accuracyFigure(rows));
  if (compared.settings.length > 0) addSection("Accuracy in the end, by setting", settingsTable(compared.settings));
  if (compared.failures?.length > 0) addSection("Failures beside their odds", failuresTable(compared.failures));
  addSection("Case by case", comparisonTable(rows));
  addSection("Published, and not predicted", compared.files.flatMap(notPredicted));
  addSection("What this rests on", bulletList(compared.files.map((file) =>
    `${file.source}${file.calibrated ? `; fitted on ${file.calibrated}` : ""}`)));
}
