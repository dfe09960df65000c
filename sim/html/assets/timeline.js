// The timeline of one step: a row for each lane, a bar for each operation, and buttons that zoom.

/** Of a schedule's phases, and of a critical path's kinds. */
const phaseColors = (theme) => ({
  forward: theme.series[5], backward: theme.series[0], optimizer: theme.series[2],
  communication: theme.series[1], host: theme.series[3], server: theme.series[4], loading: theme.series[6],
  compute: theme.series[0], collective: theme.series[1], transfer: theme.series[7],
});

function timelineConfig(theme, { rows, bars, from, to }) {
  const phases = [...new Set(bars.map((bar) => bar.phase))];
  return {
    type: "bar",
    data: {
      datasets: phases.map((phase) => ({
        label: phase,
        data: bars.filter((bar) => bar.phase === phase).map((bar) => ({ x: [bar.start, bar.end], y: rows[bar.row], bar })),
        backgroundColor: phaseColors(theme)[phase] ?? theme.idle,
        borderColor: theme.page, borderWidth: bars.length < 400 ? { left: 1 } : 0,
        grouped: false, barPercentage: 0.85, categoryPercentage: 1, minBarLength: 1,
      })),
    },
    options: {
      indexAxis: "y",
      scales: { x: axis(theme, { title: "since the step began", format: "time", min: from, max: to }), y: categories(theme, rows) },
      plugins: { tooltip: { callbacks: {
        title: ([item]) => item.raw.bar.label,
        label: ({ raw }) => `${time(raw.bar.start)} to ${time(raw.bar.end)}: ${time(raw.bar.end - raw.bar.start)}`,
      } } },
    },
  };
}

/** Those rows alone, and their bars. */
function partOf({ rows, bars }, { members }) {
  const place = new Map(members.map((row, index) => [row, index]));
  return {
    rows: members.map((row) => rows[row]),
    bars: bars.filter((bar) => place.has(bar.row)).map((bar) => ({ ...bar, row: place.get(bar.row) })),
  };
}

/** bars: [{row, start, end, label, phase}] in seconds from 0 to `length`. groups: [{name, members: rows}] to look at alone. */
function timelineFigure({ title, description, rows, bars, length, groups = [] }) {
  let from = 0, to = length;
  let shown = { rows, bars };
  const shownRange = element("span", { role: "status" });
  let chart;
  const zoom = (newFrom, newTo) => {
    const width = Math.min(length, Math.max(length / 1e4, newTo - newFrom));
    from = Math.min(Math.max(0, newFrom), length - width);
    to = from + width;
    shownRange.textContent = `${time(from)} to ${time(to)} of ${time(length)}`;
    if (chart) chart.draw();
  };
  const by = (factor, shift) => () => {
    const middle = (from + to) / 2 + shift * (to - from), half = ((to - from) * factor) / 2;
    zoom(middle - half, middle + half);
  };
  const controls = element("div", { class: "controls", role: "group", "aria-label": `Zoom of: ${title}` },
    button("Zoom in", by(0.5, 0)), button("Zoom out", by(2, 0)), button("Earlier", by(1, -0.5)), button("Later", by(1, 0.5)),
    button("Whole step", () => zoom(0, length)), shownRange);
  if (groups.length > 1)
    controls.prepend(choice("Show ", ["all stages", ...groups.map(({ name }) => name)], 0, (index) => {
      shown = index === 0 ? { rows, bars } : partOf({ rows, bars }, groups[index - 1]);
      chart.update({ height: shown.rows.length * 30 + 70 });
    }));
  chart = new ChartFigure({
    title, controls, height: rows.length * 30 + 70,
    description: `${description} Drag across the picture to look closer.`,
    config: (theme) => timelineConfig(theme, { ...shown, from, to }),
    table: () => table(title, [
      { title: "operation", value: (bar) => bar.label },
      { title: "lane", value: (bar) => shown.rows[bar.row] },
      { title: "phase", value: (bar) => bar.phase },
      { title: "from", value: (bar) => bar.start, format: "time" },
      { title: "takes", value: (bar) => bar.end - bar.start, format: "time" },
    ], shown.bars),
  });
  dragToZoom(chart, zoom);
  zoom(0, length);
  return chart.root;
}

/** A pointer that is dragged across the picture chooses what is shown; a double click shows all. */
function dragToZoom(figure, zoom) {
  let start = null;
  const at = (event) => figure.chart.scales.x.getValueForPixel(event.clientX - figure.canvas.getBoundingClientRect().left);
  figure.canvas.addEventListener("pointerdown", (event) => { start = { x: event.clientX, value: at(event) }; });
  figure.canvas.addEventListener("pointerup", (event) => {
    if (start && Math.abs(event.clientX - start.x) > 8) {
      const end = at(event);
      zoom(Math.min(start.value, end), Math.max(start.value, end));
    }
    start = null;
  });
  figure.canvas.addEventListener("dblclick", () => zoom(0, Infinity));
}

/** From the extras of a run (sim/html/timeline.hpp). */
function runTimeline(timeline) {
  if (!timeline || timeline.spans.length === 0) return null;
  const stages = [...new Set(timeline.lanes.map(({ stage }) => stage).filter((stage) => stage !== undefined))];
  const ranks = new Set(timeline.lanes.map((lane) => lane.rank)).size;
  const whose = ({ stage, rank }) =>
    stage === undefined ? `rank ${rank}` : ranks > stages.length ? `stage ${stage}, rank ${rank}` : `stage ${stage}`;
  const rows = timeline.lanes.map((lane) => `${whose(lane)}: ${lane.name}`);
  const groups = stages.map((stage) => ({
    name: `stage ${stage}`, members: [...timeline.lanes.keys()].filter((row) => timeline.lanes[row].stage === stage),
  }));
  const bars = timeline.spans.map(([row, start, end, label, phase]) => ({
    row, start, end, label: timeline.labels[label], phase: timeline.phases[phase],
  }));
  const joined = timeline.operations - bars.length;
  return timelineFigure({
    title: "Timeline of one step",
    description: `What ${ranks} of ${plural(timeline.ranks, "simulated rank")} do in step ${timeline.iteration + 1}, ` +
      `${plural(timeline.operations, "operation")}` + (joined > 0 ? `, the shortest joined into ${plural(bars.length, "bar")}` : "") + ".",
    rows, bars, groups, length: timeline.length_s,
  });
}
