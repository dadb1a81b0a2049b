"""dbt's documentation is one page that names owners, and asks no other machine for anything."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser


def test_the_documentation_shows_published_models_with_their_owner(
    sluice: Any, browser: Browser
) -> None:
    sluice.run("2013-01-05")
    file = Path(sluice.json("docs")["docs"])
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri() + "#!/model/model.sluice.fct_flights")
    page.wait_for_selector("text=flight-operations@example.com")
    text = page.inner_text("body")
    assert "destination_airport_code" in text
    assert [url for url in asked if url.startswith("http")] == []
