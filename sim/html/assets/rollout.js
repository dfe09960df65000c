// The page of a step of post-training: `rehearse.rollout/1`.

/** The phases of a step on one line, and beside a trainer the generator's. */
function phaseFigure(step) {
  const apart = step.generator_gpus > 0 && step.gpus > step.trainer_gpus;
  const rows = apart ? ["trainer", "generator"] : ["step"];
  const waits = step.staleness?.generator_waits_s ?? 0;
  const parts = [...step.phases.map(({ phase, time_s }, index) => ({ name: phase, index, values: apart ? [time_s, 0] : [time_s] })),
    ...(apart ? [{ name: "generating", index: step.phases.length, values: [0, Math.max(0, step.step_time_s - waits)] },
      { name: "waiting for weights", index: step.phases.length + 1, values: [0, waits] }] : [])];
  return figure({
    title: "Phases of a step",
    description: apart ? "Trainer and generator work at the same time." : "The same GPUs do one after the other.",
    height: apart ? 190 : 130,
    config: (theme) => stackedBars(theme, { rows, x: { format: "time" },
      parts: parts.map((part) => ({ ...part, color: theme.series[part.index % theme.series.length] })) }),
    table: () => table("Phases of a step", [
      { title: "phase", value: ({ name }) => name },
      ...rows.map((row, at) => ({ title: row, format: "time", value: ({ values }) => values[at] })),
    ], parts),
  });
}

/** One curve over the time of generation. */
function generationFigure(title, description, points, y) {
  return figure({
    title, description, height: 260,
    config: (theme) => lineChart(theme, { series: [{ name: y.title, points, look: { pointRadius: 0 } }],
      x: { type: "linear", title: "time", format: "time" }, y }),
    table: () => table(title, [{ title: "time", format: "time", value: ({ x }) => x },
      { title: y.title, format: y.format, value: (point) => point.y }], points),
  });
}

function generationSection(generation) {
  if (!generation) return;
  const over = (key) => generation.last_copy.map((load) => ({ x: load.at_s, y: load[key] }));
  addSection("Generation",
    paragraph(`Copies of the engine: ${generation.copies}; at the end copies wait ${time(generation.tail_idle_s)} in the mean for the last one.` +
      (generation.preemptions > 0 ? ` Sequences that lost their place in the cache and were computed again: ${generation.preemptions}.` : "")),
    chartGrid(
      generationFigure("The tail of long responses", "Share of all responses that have ended, if nothing else runs.",
        generation.ends.map(({ share, at_s: at }) => ({ x: at, y: share })), { title: "ended", format: "percent" }),
      generationFigure("Sequences at a time", "Of the copy that ends last.", over("sequences"), { title: "sequences", format: "whole" }),
      generationFigure("The cache", `Tokens that the copy that ends last holds; it has place for ${number(Math.round(generation.cache_tokens))}.`,
        over("cache_tokens"), { title: "tokens", format: "whole" })));
}

/** A verdict and its odds, as `run` says them. */
function verdictWords({ verdict, chance_of_fitting: chance }) {
  if (verdict !== "at_risk") return (verdict ?? "not known").replaceAll("_", " ");
  return `may not fit${chance === undefined ? "" : `: fits with ${Math.round(100 * chance)} %`}`;
}

function ageSection(staleness) {
  if (!staleness) return;
  const bars = staleness.shares.map((value, age) => ({ name: `${age}`, value }));
  addSection("Age of responses",
    paragraph(`Mean ${fixed(staleness.mean, 2)} steps, at most ${staleness.most}. The trainer waits ${time(staleness.trainer_waits_s)} of a step, the generator ${time(staleness.generator_waits_s)}.`),
    figure({
      title: "Steps between a response's weights and its update", description: "Share of responses that are trained on.",
      height: 60 + 34 * bars.length,
      config: (theme) => barChart(theme, { bars, x: { title: "share", format: "percent" } }),
      table: () => table("Age of responses", [{ title: "age", value: ({ name }) => name },
        { title: "share", format: "percent", value: ({ value }) => value }], bars),
    }));
}

function rolloutPage(step) {
  addSection("The step",
    note("Beware", step.warnings),
    cards([
      { name: "Step", key: "step_time_s", value: step.step_time_s, format: "time", interval: step.interval && [step.interval.low_s, step.interval.high_s] },
      { name: "Tokens/s", key: "tokens_per_s", value: step.tokens_per_s, format: "number" },
      { name: "Price of a step", key: "usd_per_step", value: step.usd_per_step, format: "usd" },
      { name: "Memory", key: "fits", value: step.fits, format: "yesNo", remark: verdictWords(step), tone: step.verdict === "fits" ? "good" : "bad" },
    ]),
    phaseFigure(step));
  generationSection(step.generation);
  ageSection(step.staleness);
  addSection("Memory of a GPU", step.memory.length > 0 ? table("Each phase, and what the others keep meanwhile", [
    { title: "phase", value: ({ phase }) => phase },
    { title: "its own", format: "bytes", value: (one) => one.own_bytes },
    { title: "beside it", format: "bytes", value: (one) => one.beside_bytes },
    { title: "of", format: "bytes", value: (one) => one.capacity_bytes },
    { title: "fits", value: (one) => one.fits, text: verdictWords, tone: (one) => (one.verdict === "fits" ? "good" : "bad") },
  ], step.memory) : null);
  addSection("Taken", bulletList(step.assumptions));
}
