// Draws the page from the document inside it.

const pages = {
  "rehearse.report/1": { draw: runPage, about: (report) => [report.description,
    `${plural(report.ranks, "GPU")} training on ${plural(report.nodes, "node")}; ${report.precision}` +
      `${report.param_dtype ? ` (param_dtype ${report.param_dtype})` : ""}, ` +
      `batch ${report.batch_per_gpu} per GPU, ${report.global_batch} per step; from ${report.scenario}`] },
  "rehearse.study/1": { draw: studyPage, about: () => ["A sweep: each point of a study, predicted."] },
  "rehearse.plan/1": { draw: planPage, about: (plan) => [`Wanted: ${plan.objective.words}${plan.constraints.length > 0 ? `; ${plan.constraints.map(({ words }) => words).join(", ")}` : ""}`] },
  "rehearse.explain/1": { draw: explainPage, about: (explained) => [`What bounds the step of ${explained.scenario}`] },
  "rehearse.kernels/1": { draw: kernelsPage, about: (table) => [`Kernels of ${table.model}, ${table.precision}, batch ${table.batch}, on ${table.gpu}`] },
  "rehearse.kernel_comparison/1": { draw: kernelComparisonPage, about: (both) => [`Kernels of ${both.model} beside the trace ${both.trace}`] },
  "rehearse.compare/1": { draw: comparePage, about: (both) => [`A is ${both.first.name}`, `B is ${both.second.name}`] },
  "rehearse.measured/1": { draw: measuredPage, about: (measured) => [`${measured.model}, ${measured.precision}, on ${measured.device}; by ${measured.command}`] },
  "rehearse.measured_comparison/1": { draw: measuredComparisonPage, about: (both) => [`A is ${both.first.name}`, `B is ${both.second.name}`] },
  "rehearse.forecast/1": { draw: forecastPage, about: () => ["What staleness does to accuracy"] },
  "rehearse.curves/1": { draw: curvesPage, about: () => ["Runs that differ by seed or order of updates alone"] },
  "rehearse.rollout/1": { draw: rolloutPage, about: (step) => [`${step.algorithm} of ${step.network} on ${plural(step.gpus, "GPU")}, ${plural(step.sequences, "sequence")} a step; from ${step.scenario}`] },
  "rehearse.validation/2": { draw: validationPage, about: () => ["Predictions beside what was measured"] },
};

function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** A part of a document with what it has in common with others (shared_parts.hpp). */
function restored(part, shared) {
  if (part === null || typeof part !== "object") return part;
  if (Object.hasOwn(part, "$shared")) return restored(shared[part.$shared], shared);
  if (Array.isArray(part)) return part.map((inner) => restored(inner, shared));
  return Object.fromEntries(Object.entries(part).map(([key, inner]) => [key, restored(inner, shared)]));
}

/** The other theme than now; what the reader's system says until then. */
function themeButton() {
  const names = () => (currentTheme() === themes.dark ? ["light", "Light page"] : ["dark", "Dark page"]);
  const toggle = button(names()[1], () => {
    document.documentElement.dataset.theme = names()[0];
    showTheme();
  });
  const showTheme = () => {
    toggle.textContent = names()[1];
    redrawFigures();
  };
  darkGround.addEventListener("change", showTheme);
  return toggle;
}

/** Pages are printed dark on light; pictures are drawn anew for that. */
function lightPrint() {
  let before;
  window.addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    redrawFigures();
  });
  window.addEventListener("afterprint", () => {
    if (before === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = before;
    redrawFigures();
  });
}

function contents() {
  const sections = [...main.querySelectorAll("section > h2")];
  if (sections.length < 3) return null;
  return element("nav", { "aria-label": "Contents" },
    element("ul", {}, sections.map((heading) => element("li", {}, element("a", { href: `#${heading.id}` }, heading.textContent)))));
}

/** Which program made the page, when, and the document itself. */
function origin(shown) {
  const version = shown.versions?.rehearse ?? shown.program?.match(/\d+\.\d+(\.\d+)?/)?.[0];
  const [month, day, year] = document.lastModified.slice(0, 10).split("/");
  return element("p", { class: "origin faint" }, `${version ? `rehearse ${version}, ` : ""}${year}-${month}-${day} `,
    button("JSON", () => save(fileName(document.title, "json"), `${JSON.stringify(shown, null, 2)}\n`, "application/json"),
      { "aria-label": "JSON: save the document that this page shows", class: "small" }));
}

function drawPage() {
  const extras = readJson("extras");
  const shown = restored(readJson("document"), extras?.shared), page = pages[shown.schema];
  const header = document.getElementById("top");
  header.append(element("div", { class: "bar" }, element("h1", {}, document.title), themeButton()));
  header.append(paragraph(shown.answer, "answer") ?? "");
  for (const text of page?.about(shown) ?? []) header.append(element("p", { class: "faint" }, text));
  header.append(commandLine(extras?.command) ?? "", origin(shown));
  if (page) page.draw(shown, extras);
  else addSection("An unknown document", element("pre", {}, JSON.stringify(shown, null, 2)));
  header.append(contents() ?? "");
  redrawFigures();
  lightPrint();
}

drawPage();
