"""Drives the page of `rehearse serve` in headless Chromium."""
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


def comes(holds, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def drive(url, pictures=None):
    """Claims as (text, holds, detail)."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    def answers():
        return browser.execute_script("return [...document.querySelectorAll('.answers .answer')].map((one) => one.textContent)")

    def choose(name, value):
        browser.execute_script("""const field = document.querySelector(`[name="${arguments[0]}"]`); field.value = arguments[1];
            field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input"));""", name, value)

    try:
        begun = time.monotonic()
        browser.get(url)
        yield "the page asks at once", comes(lambda: len(answers()) == 1), answers()
        print(f"first answer {time.monotonic() - begun:.2f} s after the page was asked for")
        first = answers()[0]
        choose("batch", 4)
        yield "an answer follows the form", comes(lambda: answers() and answers()[-1] != first), answers()
        browser.execute_script("""[...document.querySelectorAll("button")].find((one) => one.textContent === "Pin").click()""")
        second = answers()[0]
        choose("batch", 2)
        yield "a pinned answer stays beside the new one", comes(lambda: len(answers()) == 2 and answers()[0] == second != answers()[1]), answers()
        browser.execute_script("""[...document.querySelectorAll("button")].find((one) => one.textContent === "Sweep").click()""")
        page = lambda: browser.execute_script("return document.querySelector('[aria-label=\"The sweep\"]')?.textContent ?? ''")
        yield "a sweep is answered on the page", comes(lambda: "Fastest that fits" in page()), page()
        browser.execute_script("""window.told = new Set();
            new MutationObserver(() => { const one = document.querySelector('[aria-label="The plan"] [role="status"]'); if (one) window.told.add(one.textContent); })
              .observe(document.body, { childList: true, subtree: true, characterData: true });
            [...document.querySelectorAll("button")].find((one) => one.textContent === "Plan").click()""")
        plan = lambda: browser.execute_script("return document.querySelector('[aria-label=\"The plan\"]')?.textContent ?? ''")
        told = lambda: browser.execute_script("return [...window.told]")
        yield "a plan says how far it is", comes(lambda: any(" of " in one for one in told())), told()
        browser.execute_script("""[...document.querySelectorAll("button")].find((one) => one.textContent === "Cancel")?.click()""")
        yield "a plan ends when it is cancelled", comes(lambda: plan() and "Cancel" not in plan(), 20), plan()
        yield "its progress is drawn once, not in characters, too", not any("[" in one for one in told()), told()
        if pictures:
            pictures(browser)
        log = browser.get_log("browser")
        yield "the console stays empty", not log, str(log)[:300]
    finally:
        browser.quit()
