"""Headless Chromium, as Debian packages it; `scripts/install-chromium` installs it."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium; run: scripts/install-chromium")
        pytest.skip("there is no Chromium; an administrator installs it: scripts/install-chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()
