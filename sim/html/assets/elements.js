// Elements of the page. Texts of the document are only ever set as text; nothing is parsed as HTML.

let elementsMade = 0;

function uniqueId(prefix) {
  return `${prefix}-${++elementsMade}`;
}

/** element("p", {class: "faint"}, "text", child): an attribute that is a function listens, one that is undefined is left out. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const main = document.getElementById("main");

/** Adds a section with a heading; where there is nothing to show, none. */
function addSection(title, ...children) {
  const shown = children.flat().filter(Boolean);
  if (shown.length === 0) return;
  const id = uniqueId("section");
  main.append(element("section", { "aria-labelledby": id }, element("h2", { id }, title), shown));
}

/** A figure of the document: `key` says where it stands, for whoever compares page and JSON. */
function figureText(tag, className, value, format, key) {
  return element(tag, { class: className, "data-key": key, "data-format": format }, show(value, format));
}

/** Cards of [name, value, format, key, interval]; those without a value are left out. */
function cards(entries) {
  const list = element("div", { class: "cards" });
  for (const { name, value, format, key, interval, remark, tone } of entries) {
    if (value === null || value === undefined) continue;
    list.append(
      element("dl", { class: "card" },
        element("dt", {}, name),
        figureText("dd", `value ${tone ?? ""}`.trim(), value, format, key),
        interval && interval[0] < interval[1] ? element("dd", { class: "interval", "data-interval": key, "data-format": format }, `${showRange(interval, format)} (90\u00a0%)`) : null,
        remark ? element("dd", { class: "interval" }, remark) : null));
  }
  return list.children.length > 0 ? list : null;
}

function paragraph(text, className) {
  return text ? element("p", { class: className }, text) : null;
}

function bulletList(texts, className) {
  return texts && texts.length > 0 ? element("ul", { class: className }, texts.map((text) => element("li", {}, text))) : null;
}

/** A warning that stands out, with its lines. */
function note(title, texts) {
  if (!texts || texts.length === 0) return null;
  return element("div", { class: "note" }, element("strong", {}, title), bulletList(texts));
}

/** A labelled choice; `change` gets the chosen option's index. */
function choice(label, options, selected, change) {
  const select = element("select", { change: (event) => change(event.target.selectedIndex) },
    options.map((option, index) => element("option", { value: index, selected: index === selected }, option)));
  return element("label", {}, label, select);
}

function checkBox(label, checked, change) {
  return element("label", { class: "check" },
    element("input", { type: "checkbox", checked, change: (event) => change(event.target.checked) }), label);
}

/** Saves a text, or what a data: URL holds, as a file of the reader's. */
function save(name, content, type = "text/plain") {
  const isUrl = content.startsWith("data:");
  const href = isUrl ? content : URL.createObjectURL(new Blob([content], { type }));
  const link = element("a", { href, download: name });
  link.click();
  if (!isUrl) setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** "Memory at its peak" as a file's name. */
function fileName(title, ending) {
  return `${title.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "").slice(0, 60) || "rehearse"}.${ending}`;
}

/** A line to be pasted into a shell, with a button that copies it. */
function commandLine(text) {
  if (!text) return null;
  const code = element("code", {}, text);
  const status = element("span", { role: "status", class: "faint" });
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      status.textContent = "selected: press Ctrl+C";
    }
  }, { "aria-label": `Copy the command: ${text}` });
  return element("div", { class: "command" }, code, copy, status);
}

function button(text, click, attributes = {}) {
  return element("button", { type: "button", click, ...attributes }, text);
}
