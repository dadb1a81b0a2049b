"""What a definition key is made of, part by part, and which parts made two of them differ.

Pure. A part is kept as a digest, so that it can be stored with every version and shows no SQL.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestration.identity import digest
from orchestration.warehouse.dbt.canonical import canonical_jinja
from orchestration.warehouse.dbt.graph import ModelNode

_LENGTH = 16

Parts = Mapping[str, Any]
ReasonKind = Literal[
    "new_model", "sql", "macro", "ephemeral_model", "environment", "config", "contract",
    "materialization", "seed", "source_columns", "tool", "upstream_model", "unrecorded",
]  # fmt: skip

_WORDS: Mapping[ReasonKind, str] = {
    "new_model": "new model",
    "sql": "SQL changed",
    "macro": "macro changed: {}",
    "ephemeral_model": "ephemeral model changed: {}",
    "environment": "a variable or environment value in its SQL changed",
    "config": "config changed: {}",
    "contract": "contract changed",
    "materialization": "how it is built changed",
    "seed": "seed changed",
    "source_columns": "columns of a source changed: {}",
    "tool": "another version of {}",
    "upstream_model": "upstream model changed: {}",
    "unrecorded": "changed; the published version does not say in what",
}


@dataclass(frozen=True)
class Reason:
    """Why a model's key is another one; `subject` is the file, config, model or tool."""

    kind: ReasonKind
    subject: str = ""

    def __str__(self) -> str:
        return _WORDS[self.kind].format(self.subject)


def definition_parts(
    model: ModelNode, inputs: Mapping[str, Any], macro_files: Collection[str]
) -> dict[str, Any]:
    """The parts of a model's definition as JSON; `inputs` is what its definition key is made of.

    `macro_files` are the paths of files with macros; other files that a model is rendered from are
    ephemeral models.
    """
    texts: dict[str, list[Any]] = {}
    for path, text in model.jinja:
        texts.setdefault(path, []).append(canonical_jinja(text))
    files = {path: _short(sorted(forms)) for path, forms in texts.items()}
    named = {"config", "shapes"}
    return {
        "own_file": files.pop(model.path, None),
        "macro_files": {path: known for path, known in files.items() if path in macro_files},
        "model_files": {path: known for path, known in files.items() if path not in macro_files},
        "tools": dict(inputs["tools"]),
        **{name: {key: _short(value) for key, value in inputs[name].items()} for name in named},
        **{name: _short(value) for name, value in inputs.items() if name not in {*named, "tools"}},
    }


def explain(before: Parts | None, after: Parts) -> list[Reason]:
    """Which parts differ; without `before` the model is new. Empty when none does."""
    if before is None:
        return [Reason("new_model")]
    return list(_differences(before, after))


def _differences(before: Parts, after: Parts) -> Iterator[Reason]:
    # What a file says matters only if the SQL that comes of it is another one.
    if before["sql"] != after["sql"]:
        yield from _text_differences(before, after) or [Reason("environment")]
    for name in _differing(before["config"], after["config"]):
        yield Reason("config", name)
    differing = [reason for part, reason in _WHOLE_PARTS.items() if before[part] != after[part]]
    yield from dict.fromkeys(differing)
    for name in _differing(before["shapes"], after["shapes"]):
        yield Reason("source_columns", name)
    for name in _differing(before["tools"], after["tools"]):
        yield Reason("tool", name)
    if before["format"] != after["format"]:
        yield Reason("tool", "sluice")


_WHOLE_PARTS: Mapping[str, Reason] = {
    "contract": Reason("contract"),
    "macros": Reason("materialization"),
    "kind": Reason("materialization"),
    "moment": Reason("config", "meta.depends_on_moment"),
    "seed": Reason("seed"),
}


def _text_differences(before: Parts, after: Parts) -> list[Reason]:
    own = [Reason("sql")] if before["own_file"] != after["own_file"] else []
    macros = _differing(before["macro_files"], after["macro_files"])
    models = _differing(before["model_files"], after["model_files"])
    return [
        *own,
        *(Reason("macro", path) for path in macros),
        *(Reason("ephemeral_model", path) for path in models),
    ]


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _short(value: Any) -> str:
    return digest(value)[:_LENGTH]
