// Tables that sort by a button in each heading and filter by words, a page at a time. Chosen over a library: Debian has only
// plug-ins of jQuery.

const kRowsPerPage = 50;
const kRowsAtAGlance = 8;  // which need no filter

/** By number where both are, else as text; what is not known goes last either way. */
function compareValues(a, b, direction) {
  const known = (value) => value !== null && value !== undefined && value !== "";
  if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
  if (typeof a === "number" && typeof b === "number") return direction * (a - b);
  return direction * String(a).localeCompare(String(b), "en", { numeric: true });
}

/**
 * columns: [{title, format, value(row), text(row)?, key?}]: `value` is what sorts, `text` what is shown (else the value in its
 * format), `key` where the value stands in the JSON, from rowKey(row) on, `words` that it is a sentence. The first column
 * heads its row.
 * Options: filtered(rows) is told what the filter leaves; rowKey(row).
 */
class DataTable {
  constructor(caption, columns, rows, options = {}) {
    this.columns = columns.filter((column) => rows.some((row) => this.text(column, row) !== ""));
    this.rows = rows;
    this.options = options;
    this.words = [];
    this.sorted = null;
    this.page = 0;
    this.extraFilter = () => true;
    this.texts = new Map();
    this.status = element("p", { class: "faint", role: "status" });
    this.body = element("tbody");
    this.previous = button("Previous rows", () => this.turnBy(-1));
    this.next = button("Next rows", () => this.turnBy(1));
    this.place = element("span");
    this.pager = element("div", { class: "controls" }, this.previous, this.place, this.next);
    this.headings = this.columns.map((column) => this.heading(column));
    const table = element("table", { class: this.columns.length > 4 ? "wide" : undefined }, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, this.headings)), this.body);
    const search = rows.length > kRowsAtAGlance;
    this.caption = caption;
    this.root = element("div", {}, search ? element("div", { class: "controls" }, this.filterInput(caption)) : null,
      element("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, table),
      search ? this.status : null, this.pager,
      rows.length > 1 ? button("CSV", () => this.saveRows(), { "aria-label": `CSV: save the table “${caption}”`, class: "small" }) : null);
    this.refresh();
  }

  text(column, row) {
    return column.text ? column.text(row) : show(column.value(row), column.format ?? "text");
  }

  /** All of a row's texts, for the filter. */
  textOf(row) {
    if (!this.texts.has(row)) {
      this.texts.set(row, this.columns.map((column) => this.text(column, row)).join("\n").toLowerCase());
    }
    return this.texts.get(row);
  }

  heading(column) {
    const isNumber = column.format !== undefined && column.format !== "text";
    return element("th", { scope: "col", class: isNumber ? "number" : undefined, "aria-sort": "none" },
      button(column.title, () => this.sortBy(column)));
  }

  filterInput(caption) {
    return element("label", {}, "Filter: rows that have all of these words",
      element("input", { type: "search", "aria-label": `Filter of the table: ${caption}`, input: (event) => {
        this.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        this.page = 0;
        this.refresh();
      } }));
  }

  sortBy(column) {
    const isSame = this.sorted?.column === column;
    this.sorted = { column, direction: isSame ? -this.sorted.direction : 1 };
    this.columns.forEach((one, index) => {
      const direction = this.sorted.direction > 0 ? "ascending" : "descending";
      this.headings[index].setAttribute("aria-sort", one === column ? direction : "none");
    });
    this.page = 0;
    this.refresh();
  }

  /** What filters leave, in order. */
  chosen() {
    const left = this.rows.filter((row) => this.extraFilter(row) && this.words.every((word) => this.textOf(row).includes(word)));
    if (!this.sorted) return left;
    const { column, direction } = this.sorted;
    return left.sort((a, b) => compareValues(column.value(a), column.value(b), direction));
  }

  refresh() {
    const rows = this.chosen();
    const pages = Math.max(1, Math.ceil(rows.length / kRowsPerPage));
    this.page = Math.min(this.page, pages - 1);
    const first = this.page * kRowsPerPage;
    const shown = rows.slice(first, first + kRowsPerPage);
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    this.status.textContent = `${rows.length} of ${plural(this.rows.length, "row")}` +
      (pages > 1 ? `, ${first + 1} to ${first + shown.length} shown` : "");
    this.showPager(pages);
    this.options.filtered?.(rows);
  }

  row(row) {
    const key = this.options.rowKey?.(row);
    return element("tr", key === undefined ? {} : { "data-row": key }, this.columns.map((column, index) => {
      const isNumber = column.format !== undefined && column.format !== "text";
      return element(index === 0 ? "th" : "td", {
        scope: index === 0 ? "row" : undefined,
        class: [isNumber ? "number" : "", column.words ? "words" : "", column.tone?.(row) ?? ""].join(" ").trim() || undefined,
        "data-title": column.title,
        "data-cell": column.key,
        "data-format": column.key ? column.formatOf?.(row) ?? column.format : undefined,
      }, this.text(column, row));
    }));
  }

  /** The rows that the filters leave, in their order, with numbers as the JSON has them. */
  saveRows() {
    const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const cell = (column, row) => {
      const value = column.value(row);
      return quoted(String(typeof value === "number" ? value : this.text(column, row)));
    };
    const lines = [this.columns.map(({ title }) => quoted(title)), ...this.chosen().map((row) => this.columns.map((column) => cell(column, row)))];
    save(fileName(this.caption, "csv"), `${lines.map((line) => line.join(",")).join("\n")}\n`, "text/csv");
  }

  turnBy(pages) {
    this.page += pages;
    this.refresh();
  }

  showPager(pages) {
    this.pager.hidden = pages === 1;
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
    this.place.textContent = `Page ${this.page + 1} of ${pages}`;
  }
}

/** A column of intervals, which sorts by their lower ends. `format`: a name, or that of a row. */
function rangeColumn(title, ends, format) {
  const formatFor = typeof format === "function" ? format : () => format;
  return { title, format: "number", value: (row) => ends(row)?.[0] ?? null, text: (row) => showRange(ends(row), formatFor(row)) };
}

/** A column of numbers of several kinds, by the key in whose unit each is; `cell` as a column's `key`. */
function mixedColumn(title, value, key, cell) {
  const text = (row) => (typeof value(row) === "number" ? show(value(row), formatOf(key(row))) : "");
  return { title, format: "number", value: (row) => value(row) ?? null, text, key: cell, formatOf: (row) => formatOf(key(row)) };
}

/** Of a point with the ends of its interval, where it has them. */
function endsOf({ low, high }) {
  return low === undefined ? null : [low, high];
}

function table(caption, columns, rows, options) {
  return rows.length > 0 ? new DataTable(caption, columns, rows, options).root : null;
}
