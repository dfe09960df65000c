// The page of an explanation: `rehearse.explain/1`.

function sharesFigure(title, description, entries, whole) {
  const bars = entries.filter(({ value }) => value > 0).toSorted((a, b) => b.value - a.value).slice(0, 20);
  if (bars.length === 0) return null;
  return figure({
    title, description: description + (bars.length < entries.length ? ` The ${bars.length} largest.` : ""), height: bars.length * 28 + 70,
    config: (theme) => barChart(theme, { bars, x: { title: "time", format: "time", min: 0 }, label: "time" }),
    table: () => table(title, [
      { title: "what", value: (one) => one.name },
      { title: "time", value: (one) => one.value, format: "time" },
      { title: "share", value: (one) => one.value / whole, format: "percent" },
    ], entries),
  });
}

/** Entries of {unit|rank|link: name, s: time}, or of an object of times. */
function timesOf(list, name) {
  if (!Array.isArray(list)) return Object.entries(list ?? {}).map(([key, value]) => ({ name: wordsOf(key), value }));
  return list.map((one) => ({ name: `${name === "rank" ? "rank " : ""}${one[name]}`, value: one.s }));
}

function pathTimeline(path) {
  const segments = path.segments ?? [];
  if (segments.length === 0) return null;
  const begin = Math.min(...segments.map(({ start_s }) => start_s));
  const rowOf = (segment) => `rank ${segment.rank}: ${segment.lane ?? ""}`;
  const rows = [...new Set(segments.map(rowOf))];
  return timelineFigure({
    title: "The critical path over time",
    description: `${plural(segments.length, "segment")}: each begins when the one before it ends.`,
    rows, length: path.total_s,
    bars: segments.map((segment) => ({ row: rows.indexOf(rowOf(segment)), start: segment.start_s - begin, end: segment.start_s - begin + segment.duration_s,
      label: segment.label, phase: segment.kind })),
  });
}

function rankSplitFigure(ranks) {
  if (!ranks || ranks.length === 0) return null;
  const shown = ranks.slice(0, 32);
  const idle = (key) => (rank) => rank.idle?.[key] ?? 0;
  const known = (rank) => idle("host_s")(rank) + idle("peer_s")(rank) + idle("server_s")(rank);
  const parts = [["compute", (rank) => rank.compute_s, "compute"], ["exposed communication", (rank) => rank.exposed_communication_s, "exposed"],
    ["idle: waits for the host", idle("host_s"), "idle"], ["idle: waits for a peer", idle("peer_s"), "idle"],
    ["idle: waits for a server", idle("server_s"), "idle"], ["idle: other", (rank) => Math.max(0, rank.idle_s - known(rank)), "idle"]];
  const used = parts.filter(([, value]) => shown.some((rank) => value(rank) > 0));
  const title = "Each rank's step";
  return figure({
    title, description: shown.length < ranks.length ? `The first ${shown.length} of ${ranks.length} ranks.` : "", height: shown.length * 30 + 70,
    config: (theme) => stackedBars(theme, { rows: shown.map((rank) => `rank ${rank.rank}`), x: { format: "time" },
      parts: used.map(([name, value, color]) => ({ name, color: theme[color], values: shown.map(value) })) }),
    table: () => table(title, [
      { title: "rank", value: (rank) => rank.rank, format: "whole" },
      { title: "program", value: (rank) => rank.program },
      ...used.map(([name, value]) => ({ title: name, value, format: "time" })),
      { title: "hidden communication", value: (rank) => rank.hidden_communication_s, format: "time" },
    ], ranks),
  });
}

function changeText({ change }) {
  return show(change, "signedPercent");
}

/** Times that would be saved, as bars, and as a table whose rows are the document's. */
function savedFigure(title, description, entries, name) {
  if (!entries || entries.length === 0) return null;
  const bars = entries.map((one) => ({ name: name(one), value: one.saved_s })).toSorted((a, b) => b.value - a.value).slice(0, 30);
  return figure({
    title, description, height: bars.length * 28 + 70,
    config: (theme) => barChart(theme, { bars, x: { title: "saved of a step", format: "time" }, label: "saves", tone: (bar) => (bar.value < 0 ? theme.bad : theme.good) }),
    table: () => table(title, [
      { title: "what", value: name },
      { title: "in words", value: (one) => one.words ?? "" },
      { title: "step time then", value: (one) => one.step_time_s ?? null, format: "time" },
      { title: "saved", value: (one) => one.saved_s, format: "time" },
      { title: "saved share", value: (one) => one.saved_share ?? null, format: "percent" },
    ], entries),
  });
}

/** Causes are removed one after another until the step is ideal; read backwards, they build the step up. */
function waterfallFigure(explained) {
  const { attribution, step_time_s: real } = explained;
  const causes = (attribution?.causes ?? []).filter(({ cumulative_step_time_s: left }) => isKnown(left));
  if (causes.length === 0) return null;
  let before = real;
  const steps = causes.map((cause) => {
    const value = before - cause.cumulative_step_time_s;
    before = cause.cumulative_step_time_s;
    return { name: wordsOf(cause.cause), words: cause.words, value };
  }).reverse().filter(({ value }) => Math.abs(value) > 1e-4 * real);
  const title = "From an ideal step to this one";
  return figure({
    title, description: `An ideal step takes ${time(before)}, this one ${time(real)}. Each bar is what one cause adds to those above it; green ones take away.`,
    height: (steps.length + 2) * 28 + 70,
    config: (theme) => waterfallChart(theme, { start: { name: "ideal step", value: before }, steps,
      end: { name: "this step", value: real }, x: { title: "time of a step", format: "time" } }),
    table: () => table(title, [
      { title: "cause", value: (one) => one.name },
      { title: "it would go with", value: (one) => one.words },
      { title: "adds", value: (one) => one.value, format: "time" },
      { title: "share of the step", value: (one) => one.value / real, format: "percent" },
    ], steps),
  });
}

function explainPage(explained) {
  const path = explained.critical_path, { attribution } = explained;
  addSection("The answer", waterfallFigure(explained), bulletList(explained.words.filter((sentence) => !explained.answer?.includes(sentence))), cards([
    { name: "Step time", key: "step_time_s", value: explained.step_time_s, format: "time" },
    { name: "An ideal step", key: "attribution.ideal_step_s", value: attribution?.ideal_step_s, format: "time", remark: "with every cause below removed" },
  ]));
  addSection("What more of each resource buys",
    savedFigure("What more of each resource buys", "Each simulated by itself.", explained.more, (one) => `${changeText(one)} ${one.words}`),
    table("Resources, one at a time", [
      { title: "resource", value: (one) => one.resource },
      { title: "in words", value: (one) => one.words },
      { title: "change", format: "number", value: (one) => one.change, text: changeText },
      { title: "step time", key: "step_time_s", value: (one) => one.step_time_s, format: "time" },
      { title: "saved", key: "saved_s", value: (one) => one.saved_s, format: "time" },
      { title: "saved share", key: "saved_share", value: (one) => one.saved_share, format: "percent" },
    ], explained.more ?? [], { rowKey: (one) => (explained.more ?? []).indexOf(one) }));
  addSection("Settings that leave the training as it is",
    savedFigure("Software", "One at a time; the weights come out the same.", explained.software, (one) => one.words));
  if (path) {
    const shares = (title, list, name) => sharesFigure(title, `Of the critical path's ${time(path.total_s)}.`, timesOf(list, name), path.total_s);
    addSection("The critical path", chartGrid(shares("The critical path by kind", path.by_kind), shares("The critical path by unit", path.by_unit, "unit"),
      shares("The critical path by rank", path.by_rank, "rank"), shares("The critical path by link", path.by_link, "link")), pathTimeline(path));
  }
  if (explained.pipeline)
    addSection("The pipeline's stages", chartGrid(stagesFigure(explained.pipeline.stages),
      sharesFigure("What bubbles wait for", "Means over the stages, of a step.", timesOf(explained.pipeline.bubble_causes, "cause"), explained.step_time_s)));
  addSection("Each rank's step", rankSplitFigure(explained.ranks));
  if (attribution) {
    addSection("What slows the step",
      paragraph("Each cause removed by itself. Causes overlap, so that they need not add up to the whole."),
      chartGrid(savedFigure("Causes", "What a step would save without each.", attribution.causes, (one) => one.cause),
        savedFigure("Workers", "What a step would save if each were like the median worker.", attribution.workers, (one) => `rank ${one.rank}`),
        savedFigure("Operations", "What a step would save without each class of operations.", attribution.operations, (one) => one.operation ?? one.name ?? "")));
  }
}
