// The page of a comparison: `rehearse.compare/1`.

/** Parts of the same thing of A and B, side by side. */
function sidesFigure(title, description, parts, unit) {
  const format = unit === "s" ? "time" : "bytes";
  const used = parts.filter((part) => part[`first_${unit}`] > 0 || part[`second_${unit}`] > 0);
  if (used.length === 0) return null;
  return figure({
    title, description, height: 150,
    config: (theme) => stackedBars(theme, { rows: ["A", "B"], x: { format },
      parts: used.map((part, index) => ({ name: part.part, color: part.part === "idle" ? theme.idle : theme.series[index % theme.series.length],
        values: [part[`first_${unit}`], part[`second_${unit}`]] })) }),
    table: () => table(title, [
      { title: "part", value: (part) => part.part },
      { title: "A", value: (part) => part[`first_${unit}`], format },
      { title: "B", value: (part) => part[`second_${unit}`], format },
      { title: "B has more", value: (part) => part[`second_${unit}`] - part[`first_${unit}`], format },
    ], used),
  });
}

function comparePage(both) {
  const scaled = Math.abs(both.scale - 1) > 1e-9;
  const times = (ratio) => (ratio >= 2 || ratio <= 0.5 ? `x ${general(ratio)}` : show(ratio - 1, "signedPercent"));
  addSection("The answer",
    sidesFigure("A step, by what a rank does", scaled ? "B's step is drawn for as many samples as A's." : "Means of the ranks that compute.", both.step, "s"),
    table("Figures side by side", [
      { title: "figure", value: (row) => row.name },
      mixedColumn("A", (row) => row.first, (row) => row.key, "first"),
      mixedColumn("B", (row) => row.second, (row) => row.key, "second"),
      { title: "B beside A", format: "number", value: (row) => row.ratio, text: (row) => (isKnown(row.ratio) ? times(row.ratio) : "") },
      { title: "90 % interval", value: (row) => (row.ratio_interval ? `${times(row.ratio_interval[0])} to ${times(row.ratio_interval[1])}` : "") },
    ], both.figures, { rowKey: (row) => both.figures.indexOf(row) }),
    paragraph(both.errors === "common" ? "Intervals of times: what both are off by together cancels."
      : "Intervals: as if the errors of one said nothing of those of the other.", "faint"));
  addSection("What differs in the input", both.inputs.length === 0 ? paragraph("Nothing that the reports tell.") : table("Keys that differ, with both values", [
    { title: "key", value: (row) => row.key },
    { title: "A", value: (row) => row.first ?? "" },
    { title: "B", value: (row) => row.second ?? "" },
  ], both.inputs));
  addSection("By which mechanism",
    chartGrid(sidesFigure("Collectives in flight", "By kind; what computing hides is counted, too.", both.collectives, "s"),
      sidesFigure("Memory of the fullest GPU", "At its peak, by kind.", both.memory, "bytes")));
  addSection("Each by itself", element("h3", {}, "A"), paragraph(both.first.answer), element("h3", {}, "B"), paragraph(both.second.answer));
}
