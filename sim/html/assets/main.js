// Draws the page from the document inside it.

const pages = {
  "rehearse.report/1": { draw: runPage, about: (report) => [report.description,
    `${plural(report.ranks, "GPU")} training on ${plural(report.nodes, "node")}; ${report.precision}, ` +
      `batch ${report.batch_per_gpu} per GPU, ${report.global_batch} per step; from ${report.scenario}`] },
  "rehearse.study/1": { draw: studyPage, about: () => ["A sweep: each point of a study, predicted."] },
  "rehearse.plan/1": { draw: planPage, about: (plan) => [`A plan: ${plan.plan}`] },
  "rehearse.explain/1": { draw: explainPage, about: (explained) => [`What bounds the step of ${explained.scenario}`] },
  "rehearse.forecast/1": { draw: forecastPage, about: () => ["What staleness does to accuracy"] },
  "rehearse.curves/1": { draw: curvesPage, about: () => ["Runs that differ by seed or order of updates alone"] },
  "rehearse.validation/2": { draw: validationPage, about: () => ["Predictions beside what was measured"] },
};

function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
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

function drawPage() {
  const shown = readJson("document"), page = pages[shown.schema];
  const header = document.getElementById("top");
  header.append(element("div", { class: "bar" }, element("h1", {}, document.title), themeButton()));
  for (const text of page?.about(shown) ?? []) header.append(element("p", { class: "faint" }, text));
  if (page) page.draw(shown, readJson("extras"));
  else addSection("An unknown document", element("pre", {}, JSON.stringify(shown, null, 2)));
  header.append(contents() ?? "");
  redrawFigures();
  lightPrint();
}

drawPage();
