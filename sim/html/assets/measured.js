// Pages of what was measured: `rehearse.measured/1` and `rehearse.measured_comparison/1`.

const measuredKinds = [
  ["The step", ["step", "forward", "backward", "optimizer", "waiting"]],
  ["Units, forward", ["unit forward"]], ["Units, backward", ["unit backward"]],
  ["Collectives", ["collective"]], ["Kernels", ["kernel"]],
];

/** A step's passes and what it waits for. */
function stepParts(parts) {
  return parts.filter(({ kind }) => ["forward", "backward", "optimizer", "waiting"].includes(kind));
}

function measuredPage(measured) {
  const step = measured.parts.find(({ kind }) => kind === "step");
  const parts = stepParts(measured.parts), whole = step?.time_s ?? parts.reduce((sum, one) => sum + one.time_s, 0);
  addSection("What was measured", step ? cards([{ name: "A step", key: "step", value: step.time_s, format: "time", remark: step.spread > 0 ? `quartiles ${show(step.spread, "percent")} apart` : null }]) : null,
    parts.length > 0 ? sharesFigure("A step's parts", `Of ${time(whole)}.`, parts.map((one) => ({ name: `${one.kind} ${one.name}`, value: one.time_s })), whole) : null,
    paragraph("Times are medians. A spread is the distance of the quartiles over the median; of a fitted curve what 90 % of its points stay within.", "faint"));
  for (const [title, kinds] of measuredKinds) {
    const rows = measured.parts.filter(({ kind }) => kinds.includes(kind));
    if (rows.length === 0) continue;
    addSection(title, table(title, [
      { title: "name", value: (row) => (kinds.length > 1 ? `${row.kind}: ${row.name}` : row.name) },
      { title: "time", value: (row) => row.time_s, format: "time" },
      { title: "spread", value: (row) => (row.spread > 0 ? row.spread : null), format: "percent" },
      { title: "in a step", value: (row) => row.in_a_step, format: "number" },
    ], rows));
  }
}

function measuredComparisonPage(both) {
  for (const [title, kinds] of measuredKinds) {
    const rows = both.changes.filter(({ kind }) => kinds.includes(kind));
    if (rows.length === 0) continue;
    addSection(title, table(title, [
      { title: "name", value: (row) => (kinds.length > 1 ? `${row.kind}: ${row.name}` : row.name) },
      { title: "A", value: (row) => row.first_s, format: "time" },
      { title: "B", value: (row) => row.second_s, format: "time" },
      { title: "change", value: (row) => row.change_s, format: "time" },
      { title: "beyond their spreads", value: (row) => (row.beyond_spread ? "yes" : ""), tone: (row) => (row.beyond_spread && row.change_s > 0 ? "bad" : "plain") },
    ], rows));
  }
}
