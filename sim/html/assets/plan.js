// The page of a plan: `rehearse.plan/1`.

function settingsText(settings) {
  return Object.entries(settings ?? {}).map(([name, label]) => `${name}: ${label}`).join(", ");
}

function planPoint(candidate) {
  return {
    candidate, labels: candidate.settings, fits: null, name: nameOf(candidate.settings),
    value: (key) => candidate.metrics?.[key], interval: (key) => candidate.intervals?.[key],
  };
}

function planMetric(key) {
  return metrics.find((metric) => metric.key === key) ?? { key, title: wordsOf(key), format: formatOf(key), better: "less" };
}

/** Every metric that some candidate has, those of the objective first. */
function planMetrics(plan) {
  const keys = [...plan.objective.metrics, ...plan.ranking.flatMap(({ metrics: all }) => Object.keys(all ?? {}))];
  return [...new Set(keys)].filter((key) => plan.ranking.some((candidate) => isKnown(candidate.metrics?.[key]))).map(planMetric);
}

function ranked(plan, rank) {
  return plan.ranking.find((candidate) => candidate.rank === rank);
}

/** Settings that tell candidates apart, the figures of the objective, and the command that gives them again. */
function candidateCard(plan, title, candidate) {
  if (!candidate) return null;
  const settings = Object.entries(candidate.settings).filter(([name, label]) =>
    label !== "-" && plan.ranking.some((other) => other.settings[name] !== label));
  const figures = planMetrics(plan).filter(({ key }) => isKnown(candidate.metrics?.[key])).slice(0, 5);
  return element("div", { class: "card choice" }, element("h3", {}, title),
    element("dl", {}, settings.flatMap(([name, label]) => [element("dt", {}, name.split(".").at(-1)), element("dd", {}, label)])),
    element("dl", {}, figures.flatMap(({ key, title: name, format }) => [element("dt", {}, name), element("dd", {}, show(candidate.metrics[key], format))])),
    commandLine(candidate.run));
}

function choiceSection(plan) {
  if (!plan.choice) {
    addSection("The choice", note("Nothing meets all constraints", plan.constraints.map(({ words }) => words)));
    return;
  }
  const { choice: chosen } = plan;
  const place = (key) => `choice.metrics.${key}`;
  addSection("The choice",
    note("Beware", plan.warnings),
    element("div", { class: "choices" }, candidateCard(plan, "The choice", chosen), candidateCard(plan, "Runner-up", ranked(plan, plan.runner_up)),
      candidateCard(plan, "Most room in memory", ranked(plan, plan.safest))),
    element("details", {}, element("summary", {}, "Why this one"), bulletList(chosen.reasons)),
    note("At risk: an end of an interval is beyond a limit", chosen.at_risk),
    cards(planMetrics(plan).map(({ key, title, format }) => ({
      name: title[0].toUpperCase() + title.slice(1), key: place(key), value: chosen.metrics[key], format, interval: chosen.intervals?.[key],
    }))),
    note("Outside calibration: believe these numbers less", plan.outside_calibration ?? []),
    (plan.assumptions ?? []).length > 0
      ? element("details", {}, element("summary", {}, plural(plan.assumptions.length, "assumption")), bulletList(plan.assumptions))
      : null);
}

/** A column for each thing that candidates are free to choose. */
function settingColumns(rows, settingsOf) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(settingsOf(row) ?? {})))];
  return names.map((name) => ({ title: name, value: (row) => settingsOf(row)?.[name] ?? "" }));
}

/** What options change nothing stands folded below what they do change. */
function rankingTables(plan) {
  const told = new Set(plan.told ?? []);
  const folded = plan.ranking.filter(({ rank }) => told.size > 0 && !told.has(rank));
  const shown = plan.ranking.filter((row) => !folded.includes(row));
  return [rankingTable(plan, shown, "Candidates that meet every constraint, the best first"),
    folded.length > 0 ? element("details", {}, element("summary", {}, `${folded.length} more, no better on the same machines or of the same figures`),
      rankingTable(plan, folded, "Candidates that say nothing new")) : null];
}

/** An interval; nothing of a candidate whose interval nobody asked for. */
function widthOf(ends) {
  return ends && ends[0] < ends[1] ? ends : null;
}

function rankingTable(plan, rows, caption) {
  const isAim = (key) => plan.objective.metrics.includes(key);
  return table(caption, [
    { title: "rank", value: (row) => row.rank, format: "whole", key: "rank" },
    { title: "tied with the best", value: (row) => row.tied, text: (row) => (row.tied ? "tied" : "") },
    ...settingColumns(plan.ranking, (row) => row.settings),
    ...planMetrics(plan).flatMap(({ key, title, format }) => {
      const column = { title, key: `metrics.${key}`, format, value: (row) => row.metrics?.[key] ?? null };
      const range = rangeColumn(`90 % interval of ${title}`, (row) => widthOf(row.intervals?.[key]), format);
      return isAim(key) ? [column, range] : [column];
    }),
    { title: "at risk", value: (row) => (row.at_risk ?? []).join("; "), tone: () => "bad", words: true },
  ], rows, { rowKey: (row) => row.rank });
}

function objectiveFigure(plan) {
  const metric = planMetric(plan.objective.metrics[0]);
  const told = new Set(plan.told ?? plan.ranking.map(({ rank }) => rank));
  const drawn = plan.ranking.filter((row) => told.has(row.rank) && isKnown(row.metrics?.[metric.key])).slice(0, 20);
  if (drawn.length < 2) return null;
  const title = `${metric.title[0].toUpperCase()}${metric.title.slice(1)} of the best candidates`;
  const axes = Object.keys(drawn[0].settings).filter((name) => drawn.some((row) => row.settings[name] !== drawn[0].settings[name]));
  const bars = drawn.map((row) => {
    const [low, high] = row.intervals?.[metric.key] ?? [];
    return { name: `${row.rank}. ${nameOf(row.settings, axes)}`, value: row.metrics[metric.key], low, high, tied: row.tied };
  });
  return figure({
    title, description: "Points are the predictions, lines their 90 % intervals: what overlaps the best one's is tied with it (green).",
    height: bars.length * 28 + 80,
    config: (theme) => barChart(theme, { bars, x: { title: metric.title, format: metric.format }, label: metric.title, pointsOnly: true,
      tone: (bar) => (bar.tied || bar === bars[0] ? theme.good : theme.compute) }),
    table: () => table(title, [
      { title: "candidate", value: (bar) => bar.name },
      { title: metric.title, value: (bar) => bar.value, format: metric.format },
      rangeColumn("90 % interval", endsOf, metric.format),
      { title: "tied", value: (bar) => bar.tied, text: (bar) => show(bar.tied, "yesNo") },
    ], bars),
  });
}

function rejectedTable(plan) {
  const stages = { bound: "by a bound, unsimulated", simulated: "simulated", error: "could not be simulated" };
  const keyOf = ({ one }) => one.constraint ?? "";
  const rows = plan.rejected.flatMap((row) => (row.failed.length > 0 ? row.failed : [{}]).map((one) => ({ row, one })));
  return table("Candidates that were rejected, and what each failed on", [
    ...settingColumns(plan.rejected, (entry) => entry.row?.settings ?? entry.settings),
    { title: "rejected", value: ({ row }) => stages[row.stage] ?? row.stage },
    { title: "constraint", value: ({ one }) => one.constraint ?? "" },
    { title: "in words", value: ({ one }) => one.words ?? "", words: true },
    mixedColumn("value", ({ one }) => one.value, keyOf),
    mixedColumn("limit", ({ one }) => one.limit, keyOf),
  ], rows);
}

/** One end of a change, in its own unit. */
function changeColumn(end) {
  const formatOfUnit = { s: "time", B: "bytes", USD: "usd" };
  const text = ({ [end]: value, unit = "" }) => {
    if (!isKnown(value)) return "";
    return unit in formatOfUnit ? show(value, formatOfUnit[unit]) : `${show(value, "number")} ${unit}`.trim();
  };
  return { title: end, format: "number", value: (row) => row[end] ?? null, text };
}

/** How far each thing must move, as a share of what it is now. */
function changesFigure(changes) {
  const bars = changes.filter(({ from, to }) => isKnown(from) && isKnown(to) && from > 0 && Math.abs(to / from - 1) > 0.001)
    .map((one) => ({ name: one.what, value: one.to / one.from - 1, one }));
  if (bars.length === 0) return null;
  const title = "How far each thing must move to change the choice";
  return figure({
    title, description: "As a share of what it is now; short bars say what the choice hangs on.", height: bars.length * 28 + 80,
    config: (theme) => barChart(theme, { bars, x: { title: "change", format: "signedPercent" }, label: "change", tone: (bar) => (Math.abs(bar.value) < 0.2 ? theme.bad : theme.compute) }),
    table: () => table(title, [
      { title: "what", value: (bar) => bar.name },
      { title: "change", value: (bar) => bar.value, format: "signedPercent" },
      { title: "in words", value: (bar) => bar.one.words, words: true },
    ], bars),
  });
}

function planPage(plan) {
  choiceSection(plan);
  addSection("What would change the answer", changesFigure(plan.would_change ?? []), table("Changes that flip the choice", [
    { title: "what", value: (row) => row.what },
    changeColumn("from"),
    changeColumn("to"),
    { title: "in words", value: (row) => row.words, words: true },
    { title: "the choice then", value: (row) => settingsText(row.choice), words: true },
  ], plan.would_change ?? []));
  const points = plan.ranking.map(planPoint);
  const front = (plan.pareto ?? []).map((index) => points[index]);
  addSection("Ranking", objectiveFigure(plan), rankingTables(plan));
  addSection("Trade-offs", paretoFigure(points, { metrics: plan.objective.metrics, front })?.root);
  addSection("Constraints", table("Limits that candidates keep to", [
    { title: "metric", value: (row) => row.metric },
    { title: "limit", value: (row) => row.limit, format: "number", text: (row) => (row.limit === null ? "" : `${row.limit} ${row.unit ?? ""}`.trim()) },
    { title: "in words", value: (row) => row.words },
  ], plan.constraints));
  const few = 20;
  addSection("Rejected", plan.rejected.length > few
    ? element("details", {}, element("summary", {}, `${plan.rejected.length} candidates, and what each failed on`), rejectedTable(plan))
    : rejectedTable(plan));
  addSection("The search", table("How many candidates there were", [
    { title: "candidates", value: ([name]) => name },
    { title: "count", value: ([, count]) => count, format: "whole" },
  ], Object.entries(plan.counts)));
}
