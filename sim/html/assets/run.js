// The page of a run: `rehearse.report/1`.

/** The verdict on a report's memory in words, as the terminal has it; null where it has none. */
function memoryVerdict(report) {
  if (!report?.memory) return null;
  const { used_bytes: used, capacity_bytes: capacity, verdict } = report.memory;
  if (verdict === null) return { name: "", words: `${bytes(used)} per GPU`, tone: "", used };
  const name = verdict.replaceAll("_", " ");
  const of = `${name}: ${bytes(used)} of ${bytes(capacity)}, `;
  if (verdict === "does_not_fit") {
    const missing = used > capacity ? `${bytes(used - capacity)} too much` : "but in pieces that are too small";
    return { name, words: of + missing, tone: "bad", used };
  }
  const free = `${of}${bytes(capacity - used)} free`;
  if (verdict === "fits") return { name, words: free, tone: "good", used };
  const most = report.intervals["memory.allocated_peak_bytes"][1] + used - report.memory.allocated_peak_bytes;
  return { name, words: `${free}; up to ${bytes(most)} (90 % interval)`, tone: "bad", used };
}

/** Above all else: that a run does not fit, or may not. */
function memoryHeadline(report) {
  const verdict = memoryVerdict(report);
  if (verdict?.tone !== "bad") return null;
  const rest = report.memory.verdict === "does_not_fit" ? ["What follows is of the same GPUs with enough memory."] : [];
  return element("div", { class: "note verdict", role: "alert" }, element("strong", {}, verdict.words), bulletList(rest));
}

function runCards(report) {
  const interval = (key) => report.intervals?.[key];
  const entry = (name, key, format, rest = {}) => ({ name, key, format, value: member(report, key), interval: interval(key), ...rest });
  return cards([
    entry("Step time", "step_time_s", "time"),
    entry("Step time, alone", "step_time_alone_s", "time", { remark: "if the other jobs did not run" }),
    entry("A worker's own step", "worker_step_time_s", "time", { remark: "mean of the workers; the step time is a global batch's" }),
    entry("Throughput", "samples_per_s", "rate"),
    entry("Tokens/s", "tokens_per_s", "number"),
    entry("Tokens/s of each GPU", "tokens_per_s_per_gpu", "number"),
    entry("Epoch", "epoch_time_s", "time"),
    entry("Training", "train_time_s", "time"),
    entry("Cost", "cost.usd", "usd", { remark: report.cost?.prices?.join("; ") }),
    entry("GPU time", "cost.gpu_hours", "gpuHours"),
    entry("Energy", "cost.energy_kwh", "energy"),
    entry("CO2", "cost.co2_kg", "mass"),
    entry("Goodput", "goodput.share", "percent", { remark: "share of the time that is not lost to failures" }),
    entry("Training, with failures", "goodput.expected_time_s", "time"),
    entry("Memory of a GPU", "memory.used_bytes", "bytes", { interval: report.memory?.needed_interval_bytes }),
    entry("Allocated memory, peak", "memory.allocated_peak_bytes", "bytes"),
    entry("Reserved memory, peak", "memory.reserved_peak_bytes", "bytes"),
    entry("GPU utilization", "gpu_utilization", "percent", { remark: "share of the step that computes" }),
    entry("Model FLOPs utilization", "mfu", "percent"),
    entry("Staleness, mean", "staleness.mean", "updates"),
    entry("Accuracy", "accuracy.accuracy", "percent", { interval: report.accuracy?.accuracy_interval }),
  ]);
}

/** Of a pipeline: [{stage, compute_s, exposed_communication: {AXIS_s}, bubble: {warm_up_s, ..}}]. */
function stagesFigure(stages) {
  if (!stages || stages.length === 0) return null;
  const axes = [...new Set(stages.flatMap((stage) => Object.keys(stage.exposed_communication)))];
  const tones = ["exposed", "hidden", "bad"];
  const parts = [["compute", (stage) => stage.compute_s, "compute"],
    ...axes.map((axis, index) => [`exposed: ${wordsOf(axis)}`, (stage) => stage.exposed_communication[axis] ?? 0, tones[index % tones.length]]),
    ["bubble: warm-up", (stage) => stage.bubble.warm_up_s, "idle"], ["bubble: steady", (stage) => stage.bubble.steady_s, "idle"],
    ["bubble: cool-down", (stage) => stage.bubble.cool_down_s, "idle"]];
  const used = parts.filter(([, value]) => stages.some((stage) => value(stage) > 0));
  const title = "A step of each stage";
  return figure({
    title, description: "Of one rank of each stage of the pipeline.", height: stages.length * 28 + 70,
    config: (theme) => stackedBars(theme, { rows: stages.map(({ stage }) => `stage ${stage}`), x: { format: "time" },
      parts: used.map(([name, value, color]) => ({ name, color: theme[color], values: stages.map(value) })) }),
    table: () => table(title, [
      { title: "stage", value: ({ stage }) => stage, format: "whole" },
      { title: "rank", value: ({ rank }) => rank, format: "whole" },
      ...used.map(([name, value]) => ({ title: name, value, format: "time" })),
    ], stages),
  });
}

function breakdownFigure(report) {
  const parts = report.breakdown;
  const whole = parts.compute_s + parts.exposed_communication_s + parts.idle_s;
  if (!(whole > 0)) return null;
  const named = [["compute", "compute_s", "compute"], ["exposed communication", "exposed_communication_s", "exposed"], ["idle", "idle_s", "idle"]];
  return figure({
    title: "A step, by what a rank does",
    description: `Mean of the ranks that compute: ${named.map(([name, key]) => `${name} ${time(parts[key])}`).join(", ")}; ` +
      `communication hidden under compute ${time(parts.hidden_communication_s)}.`,
    height: 100,
    config: (theme) => stackedBars(theme, {
      rows: ["a step"], x: { format: "time" },
      parts: named.map(([name, key, color]) => ({ name, color: theme[color], values: [parts[key]] })),
    }),
    table: () => table("A step, by what a rank does", [
      { title: "part", value: (row) => row[0] },
      { title: "time", value: (row) => parts[row[1]], format: "time" },
      { title: "share of the step", value: (row) => parts[row[1]] / whole, format: "percent" },
    ], [...named, ["hidden communication (beside compute)", "hidden_communication_s"]]),
  });
}

/** One bar of what a GPU holds, and of what is left of its capacity. */
function memoryAtPeakFigure(memory) {
  const kinds = Object.entries(memory.by_kind)
    .map(([key, value]) => ({ name: wordsOf(key), key: `memory.by_kind.${key}`, value }))
    .concat([{ name: "reserved more (fragmentation)", value: memory.fragmentation_bytes, key: "memory.fragmentation_bytes" },
      { name: "NCCL and other communicators", value: memory.communicators_bytes, key: "memory.communicators_bytes" },
      { name: "CUDA context", value: memory.context_bytes, key: "memory.context_bytes" }])
    .filter((kind) => kind.value > 0);
  const used = kinds.reduce((sum, kind) => sum + kind.value, 0), free = memory.capacity_bytes - used;
  const shown = free > 0 ? [...kinds, { name: "free", value: free }] : kinds;
  return figure({
    title: "Memory at its peak, by kind",
    description: [memory.peak_at ? `The most is held at: ${memory.peak_at}.` : "",
      free > 0 ? `${bytes(free)} of ${bytes(memory.capacity_bytes)} are free.` : `${bytes(-free)} more than the ${bytes(memory.capacity_bytes)} that the GPU has.`].join(" "),
    height: 100,
    config: (theme) => stackedBars(theme, {
      rows: ["a GPU"], x: { format: "bytes" },
      parts: shown.map(({ name, value }, index) => ({ name, values: [value], color: name === "free" ? theme.grid : theme.series[index % theme.series.length] })),
    }),
    table: () => table("Memory at its peak, by kind",
      [{ title: "kind", value: (kind) => kind.name }, { title: "size", value: (kind) => kind.value, format: "bytes" }], kinds),
  });
}

/** Kinds that are held at some moment, the lasting ones first, so that what comes and goes lies on top. */
function heldKinds(picture) {
  const least = (index) => Math.min(...picture.samples.map((sample) => sample[index + 1]));
  return picture.kinds
    .map((name, index) => ({ name: name.replaceAll("_", " "), index, least: least(index) }))
    .filter(({ index }) => picture.samples.some((sample) => sample[index + 1] > 0))
    .sort((a, b) => b.least - a.least);
}

function memoryOverTimeFigure(picture, length) {
  const kinds = heldKinds(picture);
  if (kinds.length === 0) return null;
  const samples = [...picture.samples, [length, ...picture.samples.at(-1).slice(1)]];
  const total = (sample) => kinds.reduce((sum, { index }) => sum + sample[index + 1], 0);
  const most = Math.max(...samples.map((sample) => Math.max(total(sample), sample.at(-1) ?? 0)));
  const title = `Memory over one step: ${picture.program}, rank ${picture.rank}`;
  const limit = picture.capacity_bytes !== null && picture.capacity_bytes < 3 * most ? picture.capacity_bytes : null;
  return figure({
    title,
    description: `At most ${bytes(Math.max(...samples.map(total)))} is allocated in this time` +
      (picture.capacity_bytes === null ? "." : `; the allocator may have ${bytes(picture.capacity_bytes)}.`) +
      " The operations' times spread it; the report's peak follows the order in which they are issued.",
    config: (theme) => {
      const area = ({ name, index }, order) => ({
        label: name, data: samples.map((sample) => ({ x: sample[0], y: sample[index + 1] })), stepped: "before", pointRadius: 0,
        fill: order === 0 ? "origin" : "-1", backgroundColor: `${theme.series[index % 10]}b0`, borderColor: theme.series[index % 10],
        borderWidth: 1, stack: "allocated",
      });
      const line = (label, color, value, dash) => ({
        label, data: samples.map((sample) => ({ x: sample[0], y: value(sample) })), stepped: "before", pointRadius: 0, fill: false,
        borderColor: color, borderWidth: 2, borderDash: dash, stack: label,
      });
      const hasReserved = samples.some((sample) => sample.at(-1) !== null);
      return {
        type: "line",
        data: { datasets: [...kinds.map(area),
          ...(hasReserved ? [line("reserved by the allocator", theme.text, (sample) => sample.at(-1), [6, 3])] : []),
          ...(limit === null ? [] : [line("what it may have", theme.bad, () => limit, [2, 3])])] },
        options: {
          interaction: { mode: "index", intersect: false },
          scales: { x: axis(theme, { title: "since the step began", format: "time", min: 0, max: length }),
            y: { ...axis(theme, { format: "bytes", most: limit ?? most, min: 0 }), stacked: true } },
          plugins: { tooltip: { callbacks: { title: ([item]) => time(item.raw.x), label: ({ dataset, raw }) => `${dataset.label}: ${bytes(raw.y)}` } } },
        },
      };
    },
    table: () => table(title, [
      { title: "since", value: (sample) => sample[0], format: "time" },
      ...kinds.map(({ name, index }) => ({ title: name, value: (sample) => sample[index + 1], format: "bytes" })),
      { title: "reserved", value: (sample) => sample.at(-1), format: "bytes" },
    ], picture.samples),
  });
}

function memorySection(report, extras) {
  const { memory } = report;
  if (!memory) return;
  const verdict = memoryVerdict(report);
  addSection("Memory",
    paragraph(`The GPU with the least room: ${verdict.words}.`, verdict.tone),
    memory.out_of_memory ? note("Out of memory", [`at ${memory.out_of_memory.at || "the start"}: ${memory.out_of_memory.message}`]) : null,
    memory.largest_batch_per_gpu === null ? null : paragraph(`Largest batch that fits: ${memory.largest_batch_per_gpu} per GPU.`),
    chartGrid(memoryAtPeakFigure(memory), (extras?.memory ?? []).map((picture) => memoryOverTimeFigure(picture, extras.timeline.length_s))),
    table("The largest of what is held at the peak", [
      { title: "unit", value: (share) => share.unit },
      { title: "kind", value: (share) => share.kind.replaceAll("_", " ") },
      { title: "size", value: (share) => share.bytes, format: "bytes" },
      { title: "tensors", value: (share) => share.tensors, format: "whole" },
    ], memory.largest_at_peak ?? []));
}

function otherJobsSection(jobs) {
  if (!jobs?.length) return;
  addSection("Other jobs on the cluster",
    paragraph("They run for as long as this one does, each on nodes of its own; what they share with it is in its step time."),
    table("Other jobs on the cluster", [
      { title: "model", value: (job) => job.model },
      { title: "strategy", value: (job) => job.strategy },
      { title: "nodes", value: (job) => job.nodes.join(", ") },
      { title: "steps meanwhile", value: (job) => job.steps, format: "whole" },
      { title: "time of a step", value: (job) => job.step_time_s, format: "time" },
    ], jobs));
}

function stalenessSection(staleness) {
  if (!staleness) return;
  const rows = Object.entries(staleness.histogram).map(([value, updates]) => ({ value: Number(value), updates }));
  const all = rows.reduce((sum, row) => sum + row.updates, 0);
  const labels = Array.from({ length: staleness.max + 1 }, (_, value) => String(value));
  addSection("Staleness of updates",
    paragraph(`Mean ${show(staleness.mean, "updates")}, median ${staleness.p50}, 99 % up to ${staleness.p99}, at most ${staleness.max}.`),
    figure({
      title: "Updates by their staleness",
      description: `How many other updates the server applied between the pull and the application of each of ${plural(all, "update")}.`,
      height: 260,
      config: (theme) => ({
        type: "bar",
        data: { datasets: [{ label: "updates", data: labels.map((value) => staleness.histogram[value] ?? 0),
          backgroundColor: theme.compute, barPercentage: 1, categoryPercentage: 0.92, maxBarThickness: 80 }] },
        options: {
          scales: {
            x: categories(theme, labels, { title: "staleness (updates)" }),
            y: axis(theme, { title: "updates", format: "whole", beginAtZero: true }),
          },
          plugins: { tooltip: { callbacks: { title: ([item]) => `staleness ${item.label}`, label: ({ raw }) => plural(raw, "update") } } },
        },
      }),
      table: () => table("Updates by their staleness", [
        { title: "staleness", value: (row) => row.value, format: "whole" },
        { title: "updates", value: (row) => row.updates, format: "whole" },
        { title: "share", value: (row) => row.updates / all, format: "percent" },
      ], rows),
    }));
}

/** What the training's length comes to: `rehearse.report/1`'s `loss`. */
function lossSection(report) {
  const loss = report.loss;
  if (!loss) return;
  const bars = loss.parts.map(({ name, ratio }) => ({ name, ...ratio }));
  if (loss.like_tokens) {
    const { value, low, high } = loss.amount;
    const like = loss.like_tokens;
    bars.push({ name: "all together", value: value / like, low: low / like, high: high / like });
  }
  const title = "Tokens to equal loss, times those of plain training";
  const [low, high] = report.intervals?.train_time_s ?? [];
  const training = { name: "training", value: report.train_time_s, low, high };
  addSection("Loss",
    paragraph(loss.line),
    loss.asked === "length" ? null : figure({
      title: "Time to equal loss", description: "With what is not known of the step and of the loss (90 %).", height: 90,
      config: (theme) => barChart(theme, { bars: [training], x: { format: "time", title: "time" } }),
      table: () => table("Time to equal loss", [
        { title: "", value: ({ name }) => name },
        { title: "time", value: ({ value }) => value, format: "time" }, rangeColumn("90 %", endsOf, "time")], [training]),
    }),
    bars.length === 0 ? null : figure({
      title, description: "90 % intervals; sources stand in the table.", height: bars.length * 32 + 60,
      config: (theme) => barChart(theme, { bars, x: { format: "number", title: "times the tokens" } }),
      table: () => table(title, [
        { title: "what costs", value: ({ name }) => name },
        { title: "times", value: ({ value }) => value, format: "number" }, rangeColumn("90 %", endsOf, "number"),
        { title: "source", value: ({ name }) => loss.parts.find((part) => part.name === name)?.source ?? "" }], bars),
    }));
}

function accuracySection(accuracy, from) {
  if (!accuracy) return;
  addSection("Accuracy",
    paragraph(`${accuracy.verdict}: fails with probability ${show(accuracy.failure_probability, "percent")}; ` +
      `staleness costs ${show(accuracy.staleness_loss, "points")} of accuracy.`, accuracy.verdict === "converges" ? "good" : "bad"),
    paragraph(`As curves of ${from} say.`),
    accuracy.target ? paragraph(`To the target: ${targetText(accuracy.target)}.`) : null,
    learningCurves([forecastSeries(accuracy)]),
    note("Outside what the forecast was fitted to", accuracy.outside_calibration));
}

/** Every number of the report by its key, whatever other sections show. */
function everyFigure(report) {
  const rows = [];
  const visit = (value, key) => {
    if (typeof value === "number") rows.push({ key, value });
    else if (value && typeof value === "object" && !Array.isArray(value)) {
      for (const [name, inner] of Object.entries(value)) visit(inner, key ? `${key}.${name}` : name);
    }
  };
  const { intervals, versions, ...figures } = report;
  visit(figures, "");
  return table("Every figure of the report", [
    { title: "key in the JSON", value: (row) => row.key },
    mixedColumn("value", (row) => row.value, (row) => row.key),
    rangeColumn("90 % interval", (row) => intervals?.[row.key], (row) => formatOf(row.key)),
  ], rows, { rowKey: (row) => row.key });
}

/** What the framework set, each line with the file of its own that says so. */
function frameworkTable(framework) {
  if (!framework || framework.set.length === 0) return null;
  return element("details", {}, element("summary", {}, `What ${framework.title} sets`),
    table(`What ${framework.title} sets`, [
      { title: "key", value: (row) => row.key },
      { title: "value", value: (row) => row.value },
      { title: "source", value: (row) => row.source },
    ], framework.set, { rowKey: (row) => row.key }));
}

function groundsSection(report) {
  addSection("What this rests on",
    element("ul", {}, [
      `Framework: ${report.framework?.line ?? "not said"}`,
      `Costs: ${report.provenance}`,
      `Fidelity: ${report.fidelity}; seed ${report.seed}`,
      `Programs: ${Object.entries(report.versions ?? {}).map(([name, version]) => `${name} ${version}`).join(", ")}`,
    ].map((text) => element("li", {}, text))),
    frameworkTable(report.framework),
    report.assumptions.length > 0
      ? element("details", {}, element("summary", {}, plural(report.assumptions.length, "assumption")), bulletList(report.assumptions))
      : null);
}

/** Whether half of the time on some GPU, or more, rests on its datasheet alone. */
function restsOnDatasheet(report) {
  return (report.compute ?? []).some(({ families }) =>
    families.filter(({ ground }) => ground === "datasheet").reduce((sum, { share }) => sum + (share ?? 0), 0) > 0.5);
}

/** What no measurement stands for; it stands out only where it is more of the step than the interval allows for. */
function outsideNote(report) {
  const listed = report.outside_calibration;
  if (!listed || listed.length === 0) return null;
  const [low, high] = report.intervals?.step_time_s ?? [report.step_time_s, report.step_time_s];
  const width = Math.max(high / report.step_time_s - 1, 1 - low / report.step_time_s);
  const exposed = (report.breakdown?.exposed_communication_s ?? 0) / report.step_time_s;
  const datasheet = Math.max(0, ...(report.compute ?? []).map(({ families }) =>
    families.filter(({ ground }) => ground === "datasheet").reduce((sum, { share }) => sum + (share ?? 0), 0)));
  if (exposed + datasheet > width) return note("Outside calibration: believe these numbers less", listed);
  return element("details", {}, element("summary", {}, "Outside calibration, and less of the step than the interval allows for"), bulletList(listed));
}

/** Single changes that make it fit, each to be pasted behind the command. */
function wouldFitTable(changes) {
  return table("What would help", [
    { title: "change", value: (one) => one.change, words: true },
    { title: "memory then", value: (one) => one.used_bytes, format: "bytes" },
    { title: "step time then", value: (one) => one.step_time_s, format: "time" },
    { title: "time per sample", value: (one) => one.price, format: "signedPercent" },
    { title: "other numbers come out", value: (one) => one.changes_training, text: (one) => show(one.changes_training, "yesNo") },
    { title: "option", value: (one) => one.set, words: true },
  ], changes ?? []);
}

function runPage(report, extras) {
  addSection("The answer",
    memoryHeadline(report),
    breakdownFigure(report),
    restsOnDatasheet(report) ? note("Datasheet alone", ["These times come from peaks and bandwidths of a datasheet: no kernel like these was measured on this GPU."]) : null,
    runCards(report),
    wouldFitTable(report.memory?.would_fit),
    outsideNote(report));
  addSection("Where a step goes", stagesFigure(report.stages), runTimeline(extras?.timeline));
  memorySection(report, extras);
  otherJobsSection(report.other_jobs);
  stalenessSection(report.staleness);
  lossSection(report);
  accuracySection(report.accuracy, report.accuracy_from);
  addSection("Every figure", everyFigure(report));
  groundsSection(report);
}
