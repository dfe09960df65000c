// The page of `rehearse serve`: a form, the answer to it, and an answer that is pinned beside.

const defaults = { model: "llama_3_8b", cluster: "aws_p5", nodes: 1, strategy: "fsdp", framework: "usual", precision: "bf16_master", tuning: "all",
  batch: 1, sequence: 4096, tokens: 0, tensor: 1, pipeline: 1, micro_batches: 8, checkpointing: false, compile: false };
const form = { ...defaults, ...asked() };
let pinned = null, current = null, timer, isAsking = false, wantsMore = false;
const status = element("p", { role: "status", class: "faint" });
const answers = element("div", { class: "answers" });
const searches = element("div");

/** The question that the address holds: what differs from the defaults, behind its #. */
function asked() {
  const words = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(defaults).filter(([name]) => words.has(name)).map(([name, usual]) => {
    const word = words.get(name);
    return [name, typeof usual === "number" ? Number(word) : typeof usual === "boolean" ? word === "true" : word];
  }));
}

function keepInAddress() {
  const differs = Object.entries(form).filter(([name, value]) => value !== defaults[name]);
  history.replaceState(null, "", differs.length > 0 ? `#${new URLSearchParams(differs)}` : location.pathname);
}

function changed() {
  keepInAddress();
  answers.classList.add("stale");
  clearTimeout(timer);
  timer = setTimeout(ask, 120);
}

function selectField(name, label, options) {
  const select = element("select", { name, change: (event) => { form[name] = event.target.value; changed(); } },
    options.map((option) => element("option", { value: option.name, selected: option.name === form[name] }, option.label ?? option.about)));
  return element("label", {}, label, select);
}

/** A slider over given values beside a box for any other. */
function numberField(name, label, values, least, most) {
  const nearest = () => values.reduce((best, value, index) => (Math.abs(value - form[name]) < Math.abs(values[best] - form[name]) ? index : best), 0);
  const box = element("input", { type: "number", name, min: least, max: most, step: 1, value: form[name], "aria-label": label,
    input: () => { if (box.checkValidity() && box.value !== "") { form[name] = Number(box.value); slider.value = nearest(); changed(); } } });
  const slider = element("input", { type: "range", min: 0, max: values.length - 1, step: 1, value: nearest(), "aria-label": `${label}, by a slider`,
    input: () => { form[name] = values[slider.value]; box.value = form[name]; changed(); } });
  return element("div", { class: "labelled number-field" }, element("span", {}, label), element("div", { class: "pair" }, slider, box));
}

function powersUpTo(most, least = 1) {
  const values = [];
  for (let value = least; value <= most; value *= 2) values.push(value);
  return values;
}

function drawForm(lists) {
  const described = (list) => list.map(({ name, about }) => ({ name, label: about ? `${name}: ${about}` : name }));
  const billions = [0, 0.1, 1, 5, 10, 15, 50, 100, 500, 1000, 2000, 15000].map((value) => value * 1e9);
  const tokens = element("select", { name: "tokens", change: (event) => { form.tokens = Number(event.target.value); changed(); } },
    billions.map((value) => element("option", { value, selected: value === form.tokens }, value === 0 ? "not said" : `${general(value / 1e9)} billion`)));
  document.getElementById("form").append(
    selectField("model", "Model", described(lists.models)),
    selectField("tuning", "What is trained", lists.tunings),
    selectField("cluster", "Machine", described(lists.clusters)),
    numberField("nodes", "Nodes", powersUpTo(1024), 1, 2048),
    selectField("strategy", "Data parallelism", lists.strategies),
    selectField("framework", "Framework", lists.frameworks),
    numberField("tensor", "Tensor parallel", powersUpTo(8), 1, 1024),
    numberField("pipeline", "Pipeline stages", powersUpTo(16), 1, 1024),
    numberField("micro_batches", "Micro-batches per step, with either", powersUpTo(64), 1, 65536),
    numberField("batch", "Samples per GPU", powersUpTo(64), 1, 65536),
    numberField("sequence", "Tokens per sample (0: the model's)", [0, ...powersUpTo(131072, 512)], 0, 1048576),
    element("label", {}, "Tokens of the whole training", tokens),
    selectField("precision", "Precision", lists.precisions),
    checkBox("recompute activations", form.checkpointing, (on) => { form.checkpointing = on; changed(); }),
    checkBox("torch.compile", form.compile, (on) => { form.compile = on; changed(); }));
}

/** What a shell makes the same answer from. */
function commandOf(scenario) {
  return `rehearse run - <<'YAML'\n${scenario}YAML`;
}

function copyButton(text, label) {
  const told = element("span", { role: "status", class: "faint" });
  return [button(label, async () => {
    await navigator.clipboard.writeText(text);
    told.textContent = "copied";
  }), told];
}

function flatRows(value, key = "") {
  if (value !== null && typeof value === "object" && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, inner]) => flatRows(inner, key ? `${key}.${name}` : name));
  return typeof value === "number" || typeof value === "string" ? [[key, value]] : [];
}

function asCsv(report) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return `key,value\n${flatRows(report).map(([key, value]) => `${key},${quoted(String(value))}`).join("\n")}\n`;
}

async function openPage(question) {
  const shown = window.open("", "_blank");
  const told = await post("page", question);
  if (told.page === undefined) shown?.close();
  else if (shown) shown.location = new URL(`page/${told.page}`, location.href);
}

const beside = [["step time", "step_time_s", "time"], ["tokens/s", "tokens_per_s", "number"], ["throughput", "samples_per_s", "rate"], ["MFU", "mfu", "percent"],
  ["memory of a GPU", "memory.used_bytes", "bytes"], ["training", "train_time_s", "time"], ["cost", "cost.usd", "usd"]];

/** Figures of the answer, and of the one pinned beside it how many times as much. */
function figuresTable(title, report, other) {
  const rows = beside.map(([name, key, format]) => ({ name, format, value: member(report, key), other: member(other ?? {}, key) })).filter(({ value }) => isKnown(value));
  return table(`Figures of ${title === "Pinned" ? "the pinned answer" : "the answer"}`, [
    { title: "figure", value: (row) => row.name },
    { title: "value", format: "number", value: (row) => row.value, text: (row) => show(row.value, row.format) },
    { title: "beside the pinned one", format: "number", value: (row) => row.value / row.other,
      text: (row) => (isKnown(row.other) && row.other > 0 ? `x ${general(row.value / row.other)}` : "") },
  ], rows);
}

function answerCard(told, title, other) {
  const { report, scenario, question, error, took, lists } = told;
  const name = `${question.model}, ${question.nodes} x ${question.cluster}`;
  const card = element("section", { class: "card", "aria-label": title }, element("h2", {}, title), element("p", { class: "faint" }, name));
  if (error) {
    card.append(element("pre", { class: "bad" }, error));
    return card;
  }
  card.append(paragraph(report.answer, "answer"), paragraph(`answered in ${time(took)}`, "faint"), breakdownFigure(report) ?? "",
    report.memory ? memoryAtPeakFigure(report.memory) : "", wouldFitTable(report.memory?.would_fit) ?? "", figuresTable(title, report, other) ?? "",
    element("div", { class: "controls" },
      title === "Pinned" ? button("Unpin", () => { pinned = null; draw(); }) : button("Pin", () => { pinned = current; draw(); }),
      copyButton(scenario, "Copy scenario"), copyButton(commandOf(scenario), "Copy command"),
      button("JSON", () => save("report.json", `${JSON.stringify(report, null, 2)}\n`, "application/json")),
      button("CSV", () => save("report.csv", asCsv(report), "text/csv")),
      button("Full page", () => openPage(question.imported === undefined ? question : { imported: question.imported }))),
    element("details", {}, element("summary", {}, "The scenario"), element("pre", {}, scenario)),
    lists ? element("details", {}, element("summary", {}, "What became of the file's keys"), element("pre", {}, lists)) : "");
  return card;
}

function draw() {
  for (const drawn of figures) drawn.chart?.destroy();
  figures.length = 0;
  answers.classList.toggle("stale", wantsMore);
  answers.replaceChildren(...[pinned ? answerCard(pinned, "Pinned") : null, current ? answerCard(current, "The answer", pinned?.report) : null].filter(Boolean));
  redrawFigures();
}

async function post(where, question) {
  const response = await fetch(where, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
  return response.json();
}

/** One question at a time; what changed meanwhile is asked next. */
async function ask() {
  if (isAsking) {
    wantsMore = true;
    return;
  }
  isAsking = true;
  wantsMore = false;
  status.textContent = "simulating …";
  const question = { ...form }, started = performance.now();
  try {
    current = { ...await post("answer", question), question, took: (performance.now() - started) / 1000 };
    status.textContent = "";
    draw();
  } catch {
    status.textContent = "The program does not answer: is it still running?";
  }
  isAsking = false;
  if (wantsMore) ask();
}

/** Asks for the best of many, or for many side by side, and shows how far the program is. */
async function search(question, title) {
  const { job, error } = await post("search", question);
  const told = element("p", { role: "status" }, error ?? "begun"), bar = element("progress", { max: 1, "aria-label": title });
  const stop = button("Cancel", () => post(`job/${job}/cancel`, {}));
  const card = element("section", { class: "card", "aria-label": title }, element("h2", {}, title),
    element("p", { class: "faint" }, `${question.form.model}, ${question.form.nodes} x ${question.form.cluster}`), ...(error ? [] : [bar, told, stop]));
  if (error) card.append(element("p", { class: "bad" }, error));
  searches.replaceChildren(card);
  if (error) return;
  for (;;) {
    const { state, progress, text } = await (await fetch(`job/${job}`)).json();
    if (state === "running") {
      const [, done, most = "", all, rest] = progress.match(/(\d+) of (at most )?(\d+)(.*)/) ?? [];
      if (all) bar.value = done / all;
      told.textContent = all ? `${done} of ${most}${all}${rest}` : progress || "begun";
      await new Promise((resolve) => { setTimeout(resolve, 300); });
      continue;
    }
    stop.remove();
    bar.remove();
    told.remove();
    card.append(...(state === "done"
      ? [paragraph(text.split("\n\n")[0].replaceAll("\n", " "), "answer"), element("a", { href: `job/${job}/page`, target: "_blank", rel: "noopener" }, "The whole page"),
        element("details", {}, element("summary", {}, "All that it says"), element("pre", {}, text))]
      : [element("pre", { class: state === "cancelled" ? "" : "bad" }, text)]));
    return;
  }
}

/** A configuration of a framework: what `import config` makes of it, and its answer. */
async function importFile(file) {
  if (!file) return;
  status.textContent = `reading ${file.name} …`;
  const question = { model: file.name, nodes: form.nodes, cluster: form.cluster }, started = performance.now();
  const name = file.name.replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "");
  const told = await post("import", { name, text: await file.text(), cluster: form.cluster, nodes: form.nodes });
  status.textContent = "";
  current = { ...told, question: { ...question, imported: told.imported }, took: (performance.now() - started) / 1000 };
  draw();
}

function drawSearches(lists) {
  const asked = { objective: "throughput", deadline_h: 0, budget_usd: 0, axis: "nodes" };
  const select = (name, label, options) => element("label", {}, label,
    element("select", { name, change: (event) => { asked[name] = event.target.value; } }, options.map((one) => element("option", { value: one.name }, one.about))));
  const number = (name, label) => element("label", {}, label,
    element("input", { type: "number", name, min: 0, value: 0, step: "any", input: (event) => { asked[name] = Number(event.target.value); } }));
  const { axis: _, ...best } = asked;
  const file = element("input", { type: "file", name: "file", change: (event) => { importFile(event.target.files[0]); event.target.value = ""; } });
  main.append(element("section", { class: "card searches", "aria-label": "More questions" }, element("h2", {}, "More questions"),
    element("div", { class: "controls" }, select("objective", "Which layout has", lists.objectives), number("deadline_h", "deadline in hours (0: none)"), number("budget_usd", "budget in USD (0: none)"),
      button("Plan", () => search({ form: { ...form }, ...Object.fromEntries(Object.keys(best).map((name) => [name, asked[name]])) }, "The plan"))),
    element("div", { class: "controls" }, select("axis", "Side by side: other", lists.axes), button("Sweep", () => search({ form: { ...form }, axis: asked.axis }, "The sweep"))),
    element("div", { class: "controls" }, element("label", {}, "Your own file, of any framework that import reads (drop it here)", file))), searches);
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); importFile(event.dataTransfer.files[0]); });
}

async function start() {
  main.append(status, answers);
  document.getElementById("form").addEventListener("submit", (event) => event.preventDefault());
  darkGround.addEventListener("change", redrawFigures);
  const lists = await (await fetch("choices")).json();
  drawForm(lists);
  drawSearches(lists);
  ask();
}

start();
