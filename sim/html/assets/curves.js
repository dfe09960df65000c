// The page of runs that differ by chance alone: `rehearse.curves/1`; its extras hold their curves.

function curvesPage(report, extras) {
  const { further, failed } = report;
  const share = (value) => show(value, "percent");
  addSection("How they end",
    paragraph(`Verdict: ${report.verdict}.`, failed.some === 0 ? "good" : "bad"),
    paragraph(`Median ${share(report.median)}, mean ${share(report.mean)}${
      report.standard_error === null ? "" : ` (standard error ${fixed(100 * report.standard_error, 2)} points)`}.${
      further ? ` ${show(further.share, "percent")} of further ones are expected in ${share(further.interval[0])} to ${share(further.interval[1])}.` : ""}`),
    table("Runs", [
      { title: "file", value: (run) => run.file },
      { title: "of", value: (run) => run.source },
      { title: "seed", value: (run) => run.seed, format: "whole" },
      { title: "staleness, mean", key: "staleness", value: (run) => run.staleness, format: "updates" },
      { title: "accuracy in the end", key: "accuracy", value: (run) => run.accuracy, format: "percent" },
      { title: "fails", value: (run) => run.failed, text: (run) => show(run.failed, "yesNo"), tone: (run) => (run.failed ? "bad" : "good") },
    ], report.runs, { rowKey: (run) => report.runs.indexOf(run) }));
  const series = (extras?.curves ?? []).slice(0, 3 * kMostSeries).map((curve, index) =>
    measuredSeries(curve, `${report.runs[index].file}${report.runs[index].failed ? ", fails" : ""}`));
  addSection("Their curves", learningCurves(series, "Accuracy on test data, as it was measured."));
}
