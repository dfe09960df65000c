// The page of a sweep: `rehearse.study/1`.

/** A point of the study for tables and charts. */
function studyPoint(study, { point, vary, exit_code, error, report }) {
  const memory = memoryVerdict(report);
  return {
    number: point, labels: vary, marks: ["fastest", "cheapest", "knee"].filter((name) => study[name] === point), error, report, exitCode: exit_code, memory,
    name: nameOf(vary) || `point ${point}`,
    fits: report?.memory?.fits ?? null, isAtRisk: report?.memory?.verdict === "at_risk",
    value: (key) => (report ? member(report, key) : undefined),
    interval: (key) => (key === "accuracy.accuracy" ? report?.accuracy?.accuracy_interval : report?.intervals?.[key]),
  };
}

function outcomeText(point) {
  if (point.report) return point.memory?.tone === "bad" ? point.memory.name : "";
  return point.error === null ? "not there yet" : `failed: ${point.error.split("\n")[0]}`;
}

function studyColumns(axes) {
  const figureColumn = (title, key, format) => ({ title, key: `report.${key}`, format, value: (point) => point.value(key) ?? null });
  return [
    { title: "point", value: (point) => point.number, format: "whole", key: "point" },
    ...axes.map((name) => ({ title: name, value: (point) => point.labels[name] })),
    { title: "outcome", value: outcomeText, tone: (point) => (outcomeText(point) ? "bad" : "") },
    { title: "mark", value: (point) => point.marks.join(", "), tone: () => "good" },
    figureColumn("step time", "step_time_s", "time"),
    rangeColumn("90 % interval", (point) => point.interval("step_time_s"), "time"),
    figureColumn("samples/s", "samples_per_s", "number"),
    figureColumn("training", "train_time_s", "time"),
    figureColumn("cost", "cost.usd", "usd"),
    figureColumn("energy", "cost.energy_kwh", "energy"),
    figureColumn("memory of a GPU", "memory.used_bytes", "bytes"),
    figureColumn("staleness", "staleness.mean", "number"),
    figureColumn("accuracy", "accuracy.accuracy", "percent"),
    rangeColumn("90 % interval of accuracy", (point) => point.interval("accuracy.accuracy"), "percent"),
  ];
}

/** A choice for each axis, beside the table's own filter. */
function axisFilters(dataTable, points, axes) {
  const chosen = new Map();
  dataTable.extraFilter = (point) => [...chosen].every(([name, label]) => point.labels[name] === label);
  return element("div", { class: "controls" }, axes.map((name) => {
    const { labels } = axisValues(points, name);
    if (labels.length < 2) return null;
    return choice(name, ["all", ...labels], 0, (index) => {
      if (index === 0) chosen.delete(name);
      else chosen.set(name, labels[index - 1]);
      dataTable.page = 0;
      dataTable.refresh();
    });
  }));
}

function memoryFigure(points) {
  let shown = points.filter((point) => point.memory);
  if (shown.length === 0) return null;
  const content = () => {
    const isShare = shown.every((point) => point.report.memory.capacity_bytes);
    const bars = shown.toSorted((a, b) => b.memory.used - a.memory.used).slice(0, kMostBars).map((point) => ({
      name: point.name, fits: point.fits, value: isShare ? point.memory.used / point.report.memory.capacity_bytes : point.memory.used, point,
    }));
    const failing = shown.filter(({ fits }) => fits === false).length;
    return {
      title: "Memory of the fullest GPU",
      description: (isShare ? "As a share of what the GPU has. " : "") + `${failing} of ${plural(shown.length, "point")} ${failing === 1 ? "does" : "do"} not fit, ${shown.filter((point) => point.isAtRisk).length} at risk` +
        (shown.length > bars.length ? `; the ${bars.length} that take most are drawn.` : "."),
      height: bars.length * 24 + 70,
      config: (theme) => barChart(theme, { bars, x: { format: isShare ? "percent" : "bytes", title: isShare ? "of the GPU's memory" : "memory", min: 0 },
        label: "used", tone: (bar) => (bar.fits === false ? theme.bad : bar.point.isAtRisk ? theme.exposed : theme.compute) }),
      table: () => table("Memory of the fullest GPU", [
        { title: "point", value: (point) => point.name },
        { title: "used", value: (point) => point.memory.used, format: "bytes" },
        { title: "of", value: (point) => point.report.memory.capacity_bytes, format: "bytes" },
        { title: "verdict", value: (point) => point.memory.name },
      ], shown),
    };
  };
  const chart = new ChartFigure(content());
  return { root: chart.root, show: (left) => { shown = left.filter((point) => point.memory); chart.update(content()); } };
}

function accuracyFigures(points) {
  const box = element("div");
  const draw = (left) => {
    const forecasts = left.filter((point) => point.report?.accuracy?.curve);
    const series = forecasts.slice(0, kMostSeries).map((point) => forecastSeries(point.report.accuracy, point.name));
    for (const old of box.querySelectorAll("figure")) figures.splice(figures.findIndex(({ root }) => root === old), 1);
    box.replaceChildren(...[
      forecasts.length > series.length
        ? paragraph(`${series.length} of ${forecasts.length} points are drawn; the filter of the table chooses others.`, "faint") : null,
      learningCurves(series)].filter(Boolean));
    redrawFigures();
  };
  if (!points.some((point) => point.report?.accuracy?.curve)) return null;
  return { root: box, show: draw };
}

function failureList(points) {
  const failed = points.filter((point) => !point.report);
  if (failed.length === 0) return null;
  const most = 20;
  return element("div", { id: "failures" },
    failed.slice(0, most).map((point) => element("div", {}, element("h3", {}, `Point ${point.number}: ${point.name}`),
      element("pre", {}, point.error ?? "not there yet"))),
    failed.length > most ? paragraph(`and ${failed.length - most} more, which the table names`) : null);
}

function studyPage(study) {
  const points = study.points.map((point) => studyPoint(study, point));
  const done = points.filter(({ report }) => report);
  const views = [scalingFigure(done, study.axes), memoryFigure(done), paretoFigure(done), accuracyFigures(done)];
  const [scaling, memory, pareto, accuracy] = views;
  let pending;
  const showInCharts = (rows) => {
    clearTimeout(pending);
    const left = rows.filter(({ report }) => report);
    pending = setTimeout(() => views.filter(Boolean).forEach((view) => view.show(left)), 120);
  };
  const dataTable = new DataTable(`Points of ${study.study}`, studyColumns(study.axes), points, { rowKey: (point) => point.number });
  dataTable.options.filtered = showInCharts;
  const failing = points.length - done.length;
  addSection("The answer", bulletList(study.conclusions ?? []), scaling?.root);
  addSection("Trade-offs", pareto?.root);
  addSection("Memory", memory?.root);
  addSection("Accuracy", accuracy?.root);
  addSection("The points",
    paragraph(`${plural(points.length, "point")} over ${study.axes.join(", ")}, from ${study.scenario}` +
      `${failing > 0 ? `; ${failing} without a result` : ""}.`),
    paragraph("What the filters leave is drawn above.", "faint"),
    axisFilters(dataTable, points, study.axes), dataTable.root);
  if (failing > 0) addSection("Points without a result", failureList(points));
  accuracy?.show(done);
  const costs = [...new Set(done.map(({ report }) => `Costs: ${report.provenance}`))];
  addSection("What this rests on", bulletList([`Study: ${study.study}`, `Program: ${study.program}`, ...costs]),
    note("Outside calibration, at some points", [...new Set(done.flatMap(({ report }) => report.outside_calibration))].slice(0, 20)));
}
