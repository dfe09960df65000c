// Figures: a heading, a legend of buttons, a picture by Chart.js, and the same numbers as a table.

/** Okabe and Ito's palette, which colour-blind readers can tell apart, in shades for both grounds. */
const themes = {
  light: {
    text: "#1b1f24", faint: "#57606a", grid: "#e1e5ea", page: "#ffffff",
    series: ["#0072b2", "#d55e00", "#009e73", "#b8528c", "#8a6d00", "#3a9bd1", "#3d444d", "#e69f00", "#6a51a3", "#8c510a"],
    compute: "#0072b2", exposed: "#d55e00", hidden: "#e69f00", idle: "#8c959f", good: "#009e73", bad: "#b3261e",
  },
  dark: {
    text: "#e6e8eb", faint: "#a3adb8", grid: "#2b323b", page: "#14171c",
    series: ["#4aa3df", "#ff8a3d", "#2fc79a", "#e39ac4", "#f0d060", "#9bd9ff", "#c8cdd3", "#d9a441", "#b3a0f0", "#d8a071"],
    compute: "#4aa3df", exposed: "#ff8a3d", hidden: "#f0c060", idle: "#7d8894", good: "#2fc79a", bad: "#ff8a80",
  },
};
const dashes = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const pointStyles = ["circle", "rect", "triangle", "rectRot", "crossRot", "star"];

Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
Chart.defaults.font.family = "system-ui, 'DejaVu Sans', sans-serif";
Chart.defaults.plugins.legend.display = false;

const darkGround = window.matchMedia("(prefers-color-scheme: dark)");

function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  return themes[chosen ?? (darkGround.matches ? "dark" : "light")];
}

const figures = [];

function redrawFigures() {
  for (const figure of figures) figure.draw();
}

/** What tells a series from others: color, dashes and points. Later ones lie on top: where lines coincide, gaps show the one below. */
function seriesLook(theme, index) {
  return {
    borderColor: theme.series[index % theme.series.length],
    backgroundColor: theme.series[index % theme.series.length],
    borderDash: dashes[index % dashes.length],
    order: -index,
    pointStyle: pointStyles[index % pointStyles.length],
  };
}

/** Ticks at round multiples of a unit: GiB for bytes, minutes and hours for times. */
function roundStep(format, most) {
  const units = { bytes: sizeUnits.map(([, scale]) => scale), time: [60, 3600, 86400] }[format];
  const unit = units?.filter((scale) => scale * 2 <= most).at(-1);
  if (!unit) return undefined;
  const raw = most / unit / 6;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  return Math.max(format === "time" ? 1 : 0, step) * unit;
}

/** Logarithmic axes label 1, 2 and 5 alone. */
function isRoundOnLogScale(value) {
  return /^[125]/.test(value.toExponential(0)) && Math.abs(Number(value.toExponential(0)) / value - 1) < 1e-9;
}

/** Of a numeric axis. `most`: its largest value, for round ticks. */
function axis(theme, { title, format = "number", log = false, most, ...rest }) {
  const step = log || !most ? undefined : roundStep(format, most);
  return {
    type: log ? "logarithmic" : "linear",
    title: { display: Boolean(title), text: title, color: theme.faint },
    grid: { color: theme.grid, borderColor: theme.faint },
    ...rest,
    ticks: {
      color: theme.faint,
      stepSize: step,
      maxRotation: 0,
      autoSkipPadding: 12,
      callback: (value) => (log && !isRoundOnLogScale(value) ? "" : show(value, format)),
      ...rest.ticks,
    },
  };
}

function categories(theme, labels, { title, ...rest } = {}) {
  return {
    type: "category",
    labels,
    title: { display: Boolean(title), text: title, color: theme.faint },
    grid: { display: false, borderColor: theme.faint },
    ticks: { color: theme.text, autoSkip: labels.length > 40, callback(_, index) { return tickText(this, labels[index]); } },
    ...rest,
  };
}

/** A tick's text; long ones are cut where the picture is narrow. */
function tickText(scale, text) {
  return shortened(text, Math.max(14, Math.floor(scale.chart.width / 22)));
}

function shortened(text, most) {
  return String(text).length > most ? `${String(text).slice(0, most - 1)}…` : text;
}

/**
 * {title, description, height, config(theme), table()}: `config` is Chart.js's; its datasets form groups by `group` (else
 * their label), which the legend switches on and off. `table` makes the element behind "as a table", when it is opened.
 */
class ChartFigure {
  constructor(options) {
    this.hidden = new Set();
    this.canvas = element("canvas", { role: "img" });
    this.box = element("div", { class: "canvas" }, this.canvas);
    this.legend = element("ul", { class: "legend", "aria-label": `Series of: ${options.title}` });
    this.description = element("p");
    this.heading = element("h3");
    this.summary = element("summary");
    this.details = element("details", { toggle: () => this.showTable() }, this.summary);
    this.saver = button("PNG", () => this.savePicture());
    this.root = element("figure", {}, element("figcaption", {}, this.heading, this.description), options.controls ?? null,
      this.legend, this.box, element("div", { class: "below" }, this.details, this.saver));
    figures.push(this);
    this.update(options);
  }

  update(options) {
    this.options = { ...this.options, ...options };
    const { title, description, height } = this.options;
    this.heading.textContent = title;
    this.description.textContent = description ?? "";
    this.summary.textContent = `“${title}” as a table`;
    this.saver.setAttribute("aria-label", `PNG: save the picture “${title}”`);
    this.canvas.setAttribute("aria-label", `${title}. ${description ?? ""} The table below has the numbers.`);
    this.box.style.height = `${height ?? 320}px`;
    this.details.querySelector("div")?.remove();
    if (this.root.isConnected) this.draw();
    this.showTable();
  }

  showTable() {
    if (!this.details.open || this.details.querySelector("div")) return;
    this.details.append(element("div", {}, this.options.table()));
  }

  /** On the page's own ground: pictures are transparent. */
  savePicture() {
    const copy = element("canvas", { width: this.canvas.width, height: this.canvas.height });
    const context = copy.getContext("2d");
    context.fillStyle = currentTheme().page;
    context.fillRect(0, 0, copy.width, copy.height);
    context.drawImage(this.canvas, 0, 0);
    save(fileName(this.options.title, "png"), copy.toDataURL("image/png"));
  }

  groupOf(dataset) {
    return dataset.group ?? dataset.label;
  }

  draw() {
    const theme = currentTheme();
    const config = this.options.config(theme);
    for (const dataset of config.data.datasets) dataset.hidden = this.hidden.has(this.groupOf(dataset));
    config.options = { ...config.options, responsive: true };
    this.chart?.destroy();
    this.chart = new Chart(this.canvas, config);
    this.drawLegend(config.data.datasets);
  }

  drawLegend(datasets) {
    const groups = [...new Map(datasets.map((dataset) => [this.groupOf(dataset), dataset]).reverse())].reverse();
    this.legend.replaceChildren(...(groups.length < 2 ? [] : groups).map(([name, dataset]) => {
      const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = dataset.swatch ?? dataset.backgroundColor ?? dataset.borderColor;
      const toggle = button(swatch, () => this.toggle(name), { "aria-pressed": String(!this.hidden.has(name)), "data-group": name });
      toggle.append(name);
      return element("li", {}, toggle);
    }));
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.chart.data.datasets.forEach((dataset, index) => {
      if (this.groupOf(dataset) === name) this.chart.setDatasetVisibility(index, !this.hidden.has(name));
    });
    this.chart.update("none");
    const pressed = [...this.legend.querySelectorAll("button")].find((one) => one.dataset.group === name);
    pressed.setAttribute("aria-pressed", String(!this.hidden.has(name)));
  }
}

function figure(options) {
  return new ChartFigure(options).root;
}

/** Figures side by side where there is room. */
function chartGrid(...all) {
  const shown = all.flat().filter(Boolean);
  return shown.length > 0 ? element("div", { class: "charts" }, shown) : null;
}
