"""The page about a run says what a reviewer needs, and works in a browser without anything else."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from orchestration.errors import EXIT_CODES, FailureKind

WINDY = "2013-02-12"


@pytest.fixture(scope="module")
def windy(shared_sluice: Any) -> Any:
    """A published run whose weather has one unusable record."""
    shared_sluice.run(WINDY)
    return shared_sluice


def written(sluice: Any, *arguments: str) -> Path:
    return Path(sluice.json("report", *arguments)["report"])


def open_page(browser: Browser, file: Path, **options: Any) -> Page:
    page = browser.new_page(**options)
    page.on("request", lambda request: asked.append(request.url))
    asked: list[str] = []
    page.goto(file.as_uri())
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    return page


def test_a_report_shows_outcome_changes_rules_and_sources(windy: Any, browser: Browser) -> None:
    page = open_page(browser, written(windy))
    text = page.inner_text("main")
    assert page.title().startswith("flights: Published")
    assert "wind_speed" in text
    assert "at most 250 mph" in text
    assert re.search(r"fct_flights\s+none\s+\d", text)
    for section in ("Outcome", "Expectations", "Quarantine", "Lineage", "Decisions", "Stages"):
        assert section in text
    [row] = windy.query("select sum(fetched), sum(loaded), sum(quarantined) from ops.artifacts")
    shown = [
        [int(cell.replace(",", "")) for cell in re.findall(r"[\d,]+", line)[-3:]]
        for line in page.inner_text("[aria-label='Records by resource'] tbody").splitlines()
    ]
    assert [sum(column) for column in zip(*shown, strict=True)] == [int(value) for value in row]


def test_a_report_holds_no_payload_and_no_personal_value(windy: Any) -> None:
    page = written(windy).read_text()
    [(payload,)] = windy.query("select payload from quarantine.records")
    assert "crew_email" not in page
    assert str(payload["pressure"]) not in page


def test_a_held_run_shows_the_expectation_that_failed_first(sluice: Any, browser: Browser) -> None:
    sluice.demo.correct("flights", WINDY, changes=[({"carrier": "AA"}, {"distance": 5})])
    sluice.run(WINDY, code=EXIT_CODES[FailureKind.QUALITY])
    page = open_page(browser, written(sluice))
    assert "Held" in page.inner_text("h1")
    assert "sluice run" in page.inner_text("#outcome pre")
    assert page.locator("details[open] .tag.failed").count() > 0
    named = page.locator("details[open] code", has_text="carrier=AA").all_inner_texts()
    assert named
    assert all(name.startswith("year=2013, month=2, day=12, carrier=AA, flight=") for name in named)


def test_a_report_can_be_read_with_a_keyboard_alone(windy: Any, browser: Browser) -> None:
    page = open_page(browser, written(windy))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the outcome"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('section') !== null")
    closed = page.locator("details:not([open]) summary").first
    closed.focus()
    page.keyboard.press("Enter")
    assert page.locator("details:not([open]) summary").count() < page.locator("details").count()


def test_a_report_names_what_a_screen_reader_needs(windy: Any, browser: Browser) -> None:
    page = open_page(browser, written(windy))
    assert page.get_attribute("html", "lang") == "en"
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    assert page.locator("table:not(:has(th[scope=col]))").count() == 0
    assert page.locator("svg:not([role=img]), svg:not(:has(title))").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(windy: Any, browser: Browser, scheme: Any) -> None:
    page = open_page(browser, written(windy), color_scheme=scheme)
    ratios = page.evaluate(CONTRAST)
    assert min(ratios) >= 4.5, ratios


def test_a_report_fits_a_narrow_window(windy: Any, browser: Browser) -> None:
    page = open_page(browser, written(windy), viewport={"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_what_a_source_says_is_never_markup(sluice: Any, browser: Browser) -> None:
    sluice.demo.correct("flights", WINDY, changes=[({"carrier": "AA"}, {"origin": "<b>X</b>"})])
    sluice.call("run", "--pipeline", "flights", "--partitions", WINDY)
    page = open_page(browser, written(sluice))
    assert page.locator("main b").count() == 0


# The contrast of each text with the page or the card below it, as WCAG computes it.
CONTRAST = """
() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const below = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour && !/, 0\\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('h1, h2, p, td, th, dt, dd, a, .tag, .quiet, code')]
    .filter((node) => node.textContent.trim() && node.className !== 'skip')
    .map((node) => {
      const [a, b] = [light(getComputedStyle(node).color), light(below(node))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    });
}
"""
