"""The documents keep up with the code: links lead somewhere, variables and examples are real."""

import re
import runpy
from pathlib import Path

import pytest

from ingestion.contracts import Contract
from orchestration.pipelines.spec import PipelineSpec
from orchestration.settings import Settings

PROJECT = Path(__file__).parents[3]
DOCUMENTS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = LINK.findall(document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_the_example_environment_explains_every_setting() -> None:
    explained = set(
        re.findall(r"^#?(SLUICE_\w+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    )
    assert {f"SLUICE_{name.upper()}" for name in Settings.model_fields} <= explained


def test_the_example_environment_sets_nothing() -> None:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []


def test_the_contract_in_the_guide_to_new_sources_is_one(tmp_path: Path) -> None:
    guide = (PROJECT / "docs/adding-a-source.md").read_text()
    (code, *_) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "gates.py").write_text(code)
    contract = runpy.run_path(str(tmp_path / "gates.py"))["CONTRACT"]
    assert isinstance(contract, Contract)
    assert contract.columns == ("airport", "gate", "width")


def test_the_words_of_a_pipeline_in_the_guide_exist() -> None:
    guide = (PROJECT / "docs/adding-a-source.md").read_text()
    (yaml,) = [
        text for text in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if "dbt:" in text
    ]
    words = re.findall(r"^(\w+):", yaml, re.MULTILINE)
    assert set(words) <= set(PipelineSpec.model_fields)
