// The page of a forecast: `rehearse.forecast/1`; its extras hold the curves that it was fitted to.

function curveName(curve) {
  const rate = `rate ${general(curve.learning_rate)}${curve.momentum ? `, momentum ${general(curve.momentum)}` : ""}`;
  return `${curve.source}: ${rate}, staleness ${fixed(curve.staleness.mean, 1)}, seed ${curve.seed}${curve.diverged ? ", diverged" : ""}`;
}

/** "92.0 %: 9854 samples, 30.0 s" */
function targetText(target) {
  if (!target) return "";
  const samples = target.samples === null ? "never" : show(target.samples, "samples");
  return `${show(target.accuracy, "percent")}: ${samples}${target.time_s === null ? "" : `, ${time(target.time_s)}`}`;
}

function forecastTable(forecast) {
  const row = (title, key, format) => ({ title, key, format, value: (told) => member(told, key) ?? null });
  return table("What is forecast", [
    { title: "strategy", value: (told) => told.name },
    { title: "verdict", value: (told) => told.verdict, tone: (told) => (told.verdict === "converges" ? "good" : "bad") },
    row("accuracy", "accuracy", "percent"),
    rangeColumn("90 % interval", (told) => told.accuracy_interval, "percent"),
    row("mean of runs that train", "accuracy_mean", "percent"),
    row("after", "samples", "samples"),
    row("time", "time_s", "time"),
    row("fails with", "failure_probability", "percent"),
    { title: "to the target", format: "number", value: (told) => told.target?.samples ?? null, text: (told) => targetText(told.target) },
  ], forecast.strategies, { rowKey: (told) => forecast.strategies.indexOf(told) });
}

/** What each strategy's forecast starts from. */
function settingsTable(forecast) {
  const row = (title, key, format) => ({ title, key, format, value: (told) => member(told, key) ?? null });
  return table("What it is forecast from", [
    { title: "strategy", value: (told) => told.name },
    row("lost by staleness", "staleness_loss", "points"),
    row("staleness, mean", "staleness.mean", "updates"),
    row("learning rate", "learning_rate", "number"),
    row("momentum", "momentum", "number"),
    row("samples/s", "samples_per_s", "number"),
  ], forecast.strategies, { rowKey: (told) => forecast.strategies.indexOf(told) });
}

function forecastPage(forecast, extras) {
  const { model, strategies } = forecast;
  const curves = extras?.curves ?? [];
  addSection("The forecast",
    forecast.best ? paragraph(`Best: ${forecast.best}.`, "good") : null,
    paragraph(`Fitted to ${plural(model.runs, "run")} of ${plural(model.settings, "setting")}, ${model.failed_runs} of which failed; ` +
      (model.held_out_error === null ? "none can be left out to try the fit on: add curves of other settings."
        : `settings left out are forecast to ${fixed(100 * model.held_out_error, 1)} points on average.`)),
    note("Outside what it was fitted to", [...new Set(strategies.flatMap(({ outside_calibration }) => outside_calibration))]),
    forecastTable(forecast), settingsTable(forecast));
  const all = [...strategies.slice(0, kMostSeries).map((told) => forecastSeries(told)),
    ...curves.map((curve) => measuredSeries(curve, curveName(curve), "measured runs, at their own settings and pace"))];
  addSection("Accuracy of the strategies", learningCurves(all,
    "Lines with bands are forecasts: expected accuracies on test data, in bands that hold 90 %. Dotted lines are the runs that they were fitted to."));
  if (curves.length > 0) {
    const series = curves.slice(0, 3 * kMostSeries).map((curve) => measuredSeries(curve, curveName(curve)));
    addSection("The runs that it was fitted to",
      learningCurves(series, "Accuracy on test data, as it was measured."),
      table("Runs", [
        { title: "run", value: curveName },
        { title: "model", value: (curve) => curve.model },
        { title: "data", value: (curve) => curve.dataset },
        { title: "workers", value: (curve) => curve.workers, format: "whole" },
        { title: "staleness, mean", value: (curve) => curve.staleness.mean, format: "updates" },
        { title: "updates", value: (curve) => curve.updates, format: "whole" },
        { title: "accuracy in the end", value: (curve) => curve.points.at(-1)?.test_accuracy, format: "percent" },
        { title: "took", value: (curve) => curve.points.at(-1)?.time_s, format: "time" },
      ], curves));
  }
}
