"""Opens pages in headless Chromium and checks what is on them.

    browse.py FOLDER [--pictures]      with NAME.html, the document NAME.json and, for runs, what the terminal shows, NAME.terminal
"""

import json
import math
import pathlib
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

import figures

PATIENCE_S = 300  # with what only a machine that hangs does not do in time
folder = pathlib.Path(sys.argv[1]).resolve()
failures = []
claims = 0


def claim(page, text, holds, detail=""):
    global claims
    claims += 1
    if not holds:
        failures.append(f"{page}: {text}: {detail}" if detail else f"{page}: {text}")


def chromium():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--proxy-server=127.0.0.1:9", "--window-size=1400,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    browser.set_page_load_timeout(PATIENCE_S)
    browser.set_script_timeout(PATIENCE_S)
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions",
                            {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})
    return browser


# --- what is on the page -------------------------------------------------------------------------

COLLECT = """
const list = (selector, map) => [...document.querySelectorAll(selector)].map(map);
return {
  title: document.title, lang: document.documentElement.lang, images: document.images.length,
  keyed: list("[data-key]", (e) => [e.dataset.key, e.dataset.format, e.textContent]),
  intervals: list("[data-interval]", (e) => [e.dataset.interval, e.dataset.format, e.textContent]),
  cells: list("tr[data-row] [data-cell]", (e) => [e.parentElement.dataset.row, e.dataset.cell, e.dataset.format, e.textContent]),
  everyFigure: list("tr[data-row] th:not([data-cell])", (e) => [e.textContent, e.nextElementSibling?.textContent]),
  headings: list("h1, h2, h3, h4", (e) => Number(e.tagName[1])),
  ids: list("[id]", (e) => e.id),
  tables: list("main table", (e) => [Boolean(e.caption?.textContent), [...e.tHead.rows[0].cells].every((c) => c.scope === "col"),
    [...e.tBodies[0].rows].every((row) => row.cells[0].scope === "row")]),
  blank: list("canvas", (e) => e).filter((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return !data.some((value, i) => i % 4 === 3 && value > 0);
  }).map((canvas) => canvas.getAttribute("aria-label")),
  canvases: list("canvas", (e) => e.getAttribute("aria-label")),
};
"""

# WCAG 2.1: relative luminance and contrast of each text with the nearest ground that is not transparent.
CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const color = parse(getComputedStyle(e).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const low = [];
let least = 21;
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility() || e.closest("script, noscript")) continue;
  const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(ground(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  least = Math.min(least, ratio);
  if (ratio < 4.5) low.push(`${e.tagName} ${e.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
}
return [least, low];
"""


def numbers_of(value, key=""):
    """Every number of a document by its key."""
    if isinstance(value, dict):
        return {k: v for name, inner in value.items() for k, v in numbers_of(inner, f"{key}.{name}" if key else name).items()}
    return {key: value} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


def check_figures(name, document, found):
    for key, form, text in found["keyed"]:
        claim(name, f"{key} is the JSON's", text == figures.shown(figures.member(document, key), form),
              f"{text} for {figures.member(document, key)}")
    for key, form, text in found["intervals"]:
        claim(name, f"the interval of {key} is the JSON's", text == figures.shown_range(figures.interval_of(document, key), form), text)
    rows = figures.rows_of(document)
    for row, key, form, text in found["cells"]:
        try:
            value = figures.member(rows[row], key)
        except (KeyError, TypeError):
            value = None
        claim(name, f"row {row}: {key} is the JSON's", text == figures.shown(value, form), f"{text} for {value}")
    for key, text in found["everyFigure"] if document["schema"] == "rehearse.report/1" else []:
        form = "bytes" if key.endswith("_bytes") else "time" if key.endswith("_s") and not key.endswith("per_s") else None
        if form:
            claim(name, f"among every figure, {key} is the JSON's", text == figures.shown(numbers_of(document)[key], form), text)
    some = len(found["keyed"]) + len(found["cells"])
    claim(name, "shows figures", some >= (0 if "hostile" in name else 5), str(some))


def check_terminal(name, found):
    """The program's own formatting of the same report."""
    terminal = folder / f"{name}.terminal"
    if not terminal.exists():
        return
    shown = terminal.read_text(encoding="utf-8")
    for key in ["step_time_s", "train_time_s", "samples_per_s", "mfu"]:
        for text in [text for one, _, text in found["keyed"] if one == key]:
            claim(name, f"{key} reads as in the terminal", text in shown, text)
    for key in ["step_time_s", "epoch_time_s"]:
        for text in [text for one, _, text in found["intervals"] if one == key]:
            claim(name, f"the interval of {key} reads as in the terminal", text.removesuffix(" (90\u00a0%)") in shown, text)


def check_structure(name, browser, found):
    claim(name, "has a language", found["lang"] == "en")
    claim(name, "has one h1, and first", found["headings"].count(1) == 1 and found["headings"][0] == 1)
    jumps = [b for a, b in zip(found["headings"], found["headings"][1:]) if b > a + 1]
    claim(name, "skips no level of headings", not jumps, str(found["headings"]))
    claim(name, "repeats no id", len(set(found["ids"])) == len(found["ids"]))
    claim(name, "has tables with captions and scopes", all(all(table) for table in found["tables"]), str(found["tables"]))
    claim(name, "draws every picture", not found["blank"], str(found["blank"]))
    claim(name, "says what each picture is", all(found["canvases"]))
    claim(name, "has no images", found["images"] == 0)
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = {"button", "checkbox", "combobox", "searchbox", "textbox", "link", "img", "image", "region", "table", "navigation"}
    unnamed = [node["role"]["value"] for node in tree if not node.get("ignored") and node.get("role", {}).get("value") in controls
               and not node.get("name", {}).get("value")]
    claim(name, "names every control", not unnamed, str(unnamed))


def quiet(name, browser):
    """Nothing on the console, and no request but for the page."""
    log = browser.get_log("browser")
    claim(name, "leaves the console empty", not log, str(log)[:500])
    urls = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.append(message["params"]["request"]["url"])
    beyond = [url for url in urls if not url.startswith("file:")]
    claim(name, "asks for nothing but itself", len(urls) <= 1 and not beyond, str(urls)[:300])


def set_width(browser, width, height=1000):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


def prefer(browser, scheme):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def next_frames(browser):
    """Pictures follow their boxes in the next frame."""
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))")


def look(browser, name, width, keep_as):
    set_width(browser, width)
    next_frames(browser)
    height = browser.execute_script("return document.documentElement.scrollHeight")
    claim(name, f"needs no sideways scrolling at {width}", browser.execute_script("return document.documentElement.scrollWidth") <= width)
    if keep_as:
        set_width(browser, width, min(height, 8000))
        next_frames(browser)
        keep_as.write_bytes(browser.get_screenshot_as_png())


def check_looks(name, browser, keep):
    for scheme, width in [("light", 1400), ("dark", 400)]:
        prefer(browser, scheme)
        look(browser, name, width, folder / f"{name}.{width}.{scheme}.png" if keep else None)
        least, low = browser.execute_script(CONTRAST)
        claim(name, f"has a contrast of 4.5 at least ({scheme})", not low, f"{least:.2f} {low[:3]}")
    set_width(browser, 1400)
    prefer(browser, "light")


# --- what its reader does ------------------------------------------------------------------------

def check_details(name, browser):
    """The table behind each picture opens and has rows."""
    rows = browser.execute_script("""
      return [...document.querySelectorAll("figure details")].map((d) => { d.open = true; d.dispatchEvent(new Event("toggle"));
        const rows = d.querySelectorAll("tbody tr").length; d.open = false; return rows; });""")
    claim(name, "has the numbers of each picture as a table", all(rows), str(rows))


def check_keyboard(browser):
    """Sort by Enter, filter by typing, turn the theme; skip link first."""
    name = "study_ddp_or_fsdp"
    browser.get(f"file://{folder}/{name}.html")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    claim(name, "begins with a skip link", browser.switch_to.active_element.get_attribute("class") == "skip")
    column = next(th for th in browser.find_elements("css selector", "main section th") if th.text.startswith("step time"))
    place = browser.execute_script("return arguments[0].cellIndex", column)
    values = "return [...document.querySelector('main section tbody').rows].map((row) => Number(row.dataset.row))"
    points = {point["point"]: (point["report"] or {}).get("step_time_s") for point in json.loads((folder / f"{name}.json").read_text())["points"]}
    for direction, sign in [("ascending", 1), ("descending", -1)]:
        column.find_element("css selector", "button").send_keys(Keys.ENTER)
        order = [sign * points[number] for number in browser.execute_script(values)]
        claim(name, f"sorts {direction}", column.get_attribute("aria-sort") == direction and order == sorted(order), f"column {place}: {order[:5]}")
    search = browser.find_element("css selector", "main input[type=search]")
    search.send_keys("ddp 64")
    left = browser.execute_script("return [...document.querySelector('main section tbody').rows].map((row) => row.innerText)")
    claim(name, "filters", 0 < len(left) < len(points) and all("ddp" in row and "64" in row for row in left), str(left)[:300])
    drawn = "return Chart.getChart(document.querySelector('canvas')).data.datasets.map((d) => d.label)"
    claim(name, "draws what the filter leaves", comes(lambda: not any("fsdp" in label for label in browser.execute_script(drawn))),
          str(browser.execute_script(drawn)))
    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.find_element("css selector", "header button").send_keys(Keys.ENTER)
    claim(name, "turns dark", browser.execute_script("return getComputedStyle(document.body).backgroundColor") != before)
    quiet(name, browser)


def check_pictures_data(browser):
    """The bars of a picture are the document's numbers."""
    name = "run_hopper_convnext_ddp"
    browser.get(f"file://{folder}/{name}.html")
    parts = json.loads((folder / f"{name}.json").read_text())["breakdown"]
    drawn = browser.execute_script("return Chart.getChart(document.querySelector('canvas')).data.datasets.map((d) => d.data[0])")
    claim(name, "draws the breakdown", drawn == [parts["compute_s"], parts["exposed_communication_s"], parts["idle_s"]], str(drawn))
    zoom = next(one for one in browser.find_elements("css selector", "button") if one.text == "Zoom in")
    limits = "const { min, max } = Chart.getChart(document.querySelectorAll('canvas')[1]).scales.x; return max - min"
    before = browser.execute_script(limits)
    zoom.send_keys(Keys.ENTER)
    claim(name, "zooms", abs(browser.execute_script(limits) / before - 0.5) < 1e-9)
    quiet(name, browser)


def check_verdicts(browser):
    """A comparison's rows say who foretells, and of runs what becomes of them."""
    name = "validation_accuracy"
    browser.get(f"file://{folder}/{name}.html")
    rows = figures.rows_of(json.loads((folder / f"{name}.json").read_text()))
    shown = dict(browser.execute_script("return [...document.querySelectorAll('tr[data-row]')].map((row) => [row.dataset.row, [...row.cells].map((c) => c.textContent)])"))
    told = {row: metric for row, metric in rows.items() if "by" in metric}
    claim(name, "says who foretells", told and all(metric["by"] in shown[row] for row, metric in told.items()), str(shown)[:300])
    words = {True: "diverges", False: "trains"}
    verdicts = {row: metric for row, metric in told.items() if metric["metric"] == "diverges"}
    expected = {row: [metric.get("verdict") or words[metric["predicted"]], words[metric["measured"]]] for row, metric in verdicts.items()}
    claim(name, "says what becomes of runs", len(verdicts) == 4 and all([cell for cell in shown[row] if cell in ("diverges", "trains", "converges", "may diverge")][-2:] == outcome
          for row, outcome in expected.items()), f"{shown} for {expected}"[:500])
    quiet(name, browser)


def check_without_scripts(browser):
    name = "run_hopper_convnext_ddp"
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(f"file://{folder}/{name}.html")
    text = browser.find_element("css selector", "main").text
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    step = json.loads((folder / f"{name}.json").read_text())["step_time_s"]
    claim(name, "has its figures without scripts", f"step_time_s {step!r}" in text, text[:200])
    browser.get_log("browser")
    browser.get_log("performance")


def comes(holds):
    """Whether something holds before long."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def check_large(browser, name, what, script):
    """Loads soon, and answers soon, which nobody would wait for if it took a time that grows with the square of what there is:
    the best of some times, in units of a sort that takes some hundredths of a second. `script` returns what took how many
    milliseconds, with that as `unit`."""
    load, took = math.inf, {}
    for _ in range(ATTEMPTS):
        started = time.monotonic()
        browser.get(f"file://{folder}/{name}.html")
        load = min(load, time.monotonic() - started)
        now = browser.execute_script(CLOCK + script)
        took = {key: min(value, took.get(key, math.inf)) for key, value in now.items()}
        next_frames(browser)
        quiet(name, browser)
    unit = took.pop("unit")
    megabytes = (folder / f"{name}.html").stat().st_size / 1e6
    print(f"{what}, {megabytes:.1f} MB: {load:.1f} s to load; " + ", ".join(f"{key} {value:.0f} ms" for key, value in took.items()) +
          f"; a unit {unit:.0f} ms")
    claim(name, "loads within 500 units", 1000 * load < 500 * unit, f"{load:.1f} s, a unit {unit:.1f} ms")
    claim(name, "answers within 60 units", max(took.values()) < 60 * unit, f"{took}, a unit {unit:.1f} ms")


ATTEMPTS = 3
CLOCK = """
const clock = (act) => { const t = performance.now(); act(); return performance.now() - t; };
const unit = clock(() => { const words = []; for (let i = 0; i < 50000; ++i) words.push(String(i * 7919 % 50021)); words.sort(); });"""
LARGE_STUDY = """
const input = document.querySelector("main input[type=search]");
return {
  unit,
  filter: clock(() => { input.value = "64"; input.dispatchEvent(new Event("input")); }),
  sort: clock(() => document.querySelector("main section th button").click()),
  theme: clock(() => document.querySelector("header button").click()),
};"""
LARGE_TIMELINE = """
const zoom = [...document.querySelectorAll("button")].find((button) => button.textContent === "Zoom in");
const canvas = document.querySelectorAll("canvas")[1], box = canvas.getBoundingClientRect();
const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
return { unit, zoom: clock(() => zoom.click()), pointer: clock(() => canvas.dispatchEvent(new MouseEvent("mousemove", at))) };"""


def check_page(name, browser):
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    browser.get(f"file://{folder}/{name}.html")
    found = browser.execute_script(COLLECT)
    check_figures(name, document, found)
    check_terminal(name, found)
    check_structure(name, browser, found)
    check_details(name, browser)
    check_looks(name, browser, keep="--pictures" in sys.argv)
    claim(name, "has its own title", not found["title"].isdigit() and found["title"] != "injected", found["title"])
    quiet(name, browser)


def main():
    browser = chromium()
    try:
        for file in sorted(folder.glob("*.html")):
            if not file.stem.startswith("large"):
                check_page(file.stem, browser)
        check_keyboard(browser)
        check_pictures_data(browser)
        check_verdicts(browser)
        check_without_scripts(browser)
        check_large(browser, "large_study", "5,000 points", LARGE_STUDY)
        check_large(browser, "large_timeline", "10,000 operations", LARGE_TIMELINE)
    finally:
        browser.quit()
    for failure in failures:
        print("FAILED", failure)
    print(f"{claims} claims, {len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
