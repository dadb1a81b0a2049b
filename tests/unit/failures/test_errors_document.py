"""docs/errors.md says what the code does."""

import pytest
from error_tables import DOCUMENT, render

from orchestration.failures.backoff import base_seconds


def test_every_table_is_the_one_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_RETRY_BASE_SECONDS", raising=False)
    text = DOCUMENT.read_text("utf-8")
    assert base_seconds() == 1
    assert render(text) == text, "run: python tests/error_tables.py"
    assert text.count("<!-- table:") == text.count("<!-- end -->") == 9
