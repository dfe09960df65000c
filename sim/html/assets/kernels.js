// Pages of a step's kernels: `rehearse.kernels/1` and `rehearse.kernel_comparison/1`.

function kernelsPage(kernels) {
  const whole = kernels.time_s;
  addSection("The step's kernels", cards([
    { name: "Calls", key: "calls", value: kernels.calls, format: "whole" },
    { name: "Time of all, one by one", key: "time_s", value: whole, format: "time" },
    { name: "The schedule's units", key: "units_time_s", value: kernels.units_time_s, format: "time" },
    { name: "Bytes", key: "bytes", value: kernels.bytes, format: "bytes" },
  ]), sharesFigure("Time by operator", `Of ${time(whole)}.`, kernels.operators.map((one) => ({ name: one.op, value: one.time_s })), whole));
  addSection("Kinds of calls", table("Kinds of calls", [
    { title: "kernel", value: (row) => row.op },
    { title: "pass", value: (row) => row.pass },
    { title: "reads", value: (row) => row.reads.join(" ") },
    { title: "writes", value: (row) => row.writes.join(" ") },
    { title: "calls", value: (row) => row.calls, format: "whole" },
    { title: "bytes", value: (row) => row.bytes, format: "bytes" },
    { title: "time", value: (row) => row.time_s, format: "time" },
    { title: "share", value: (row) => row.share, format: "percent" },
    { title: "ground", value: (row) => row.ground },
  ], kernels.kernels));
}

function kernelComparisonPage(both) {
  addSection("Beside the trace", cards([
    { name: "Predicted", key: "time_s", value: both.time_s, format: "time" },
    { name: "Traced", key: "traced_s", value: both.traced_s, format: "time" },
    { name: "Traced time matched by operator", key: "matched_share", value: both.matched_share, format: "percent" },
    { name: "By operator and shapes", key: "matched_shapes_share", value: both.matched_shapes_share, format: "percent" },
  ]), sharesFigure("Traced time by operator", `Of ${time(both.traced_s)}.`, both.operators.map((one) => ({ name: one.op, value: one.traced_s })), both.traced_s));
  addSection("Kinds of calls", table("Kinds of calls", [
    { title: "kernel", value: (row) => row.op },
    { title: "shapes", value: (row) => row.shapes },
    { title: "verdict", value: (row) => row.verdict },
    { title: "calls", value: (row) => row.calls, format: "whole" },
    { title: "traced calls", value: (row) => row.traced_calls, format: "number" },
    { title: "time", value: (row) => row.time_s, format: "time" },
    { title: "traced", value: (row) => row.traced_s, format: "time" },
    { title: "ratio", value: (row) => row.ratio, format: "number" },
  ], both.kernels));
}
