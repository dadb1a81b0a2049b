"""Reading the dbt project: parsed once for each attempt, compiled with constant names, never run.

No connection to the warehouse is made here; a broken project is a configuration error that names
the file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.checks import declared_refusals, raise_refusals
from orchestration.warehouse.dbt.graph import ModelNode, OutsideModel, ProjectGraph
from orchestration.warehouse.dbt.patching import with_placeholders
from orchestration.warehouse.dbt.reading import closure, read_model
from orchestration.warehouse.dbt.session import DbtSession, invoke

_NODE_TYPES = ("--resource-type", "model", "--resource-type", "seed")


def parse_project(session: DbtSession) -> Any:
    """dbt's manifest of the project. Raises `ConfigurationError` when dbt refuses the project."""
    parsed = invoke(session, ["parse"])
    parsed.raise_if_broken("the dbt project cannot be parsed")
    return parsed.result


def load_graph(
    session: DbtSession,
    selection: Sequence[str],
    *,
    outside: Mapping[str, OutsideModel] | None = None,
    manifest: Any = None,
) -> ProjectGraph:
    """The models that dbt's `--select` terms name, with all their ancestors.

    `manifest` spares the parsing. Raises `ConfigurationError` for a broken project, an empty
    selection, or models that are refused before they are compiled.
    """
    others = dict(outside or {})
    manifest = parse_project(session) if manifest is None else manifest
    needed = closure(manifest, _selected(session, manifest, selection), others)
    nodes = [read_model(manifest, unique_id, others, session.project_dir) for unique_id in needed]
    models = [model for model in nodes if model.materialized != "ephemeral"]
    refused = []
    for model in models:
        language = getattr(manifest.nodes[model.unique_id], "language", "sql")
        refused += list(declared_refusals(model, str(language)))
        if getattr(manifest.nodes[model.unique_id], "version", None) is not None:
            refused.append(f"{model.title}: model versions are not supported; rename the model")
    raise_refusals(refused)
    compiled = _compile(session, manifest, models)
    return ProjectGraph(
        tuple(replace(model, compiled_code=compiled.get(model.unique_id, "")) for model in models),
        others,
        manifest,
    )


def _selected(session: DbtSession, manifest: Any, selection: Sequence[str]) -> list[str]:
    listed = invoke(
        session,
        [
            *("ls", "--select", *selection, *_NODE_TYPES),
            *("--output", "json", "--output-keys", "unique_id"),
        ],
        manifest.deepcopy(),
    )
    listed.raise_if_broken(f"dbt cannot select {' '.join(selection)}")
    found = [json.loads(line)["unique_id"] for line in listed.result or ()]
    if not found:
        raise ConfigurationError(
            f"the dbt selection {' '.join(selection)!r} selects no model; correct the pipeline",
            code="empty_selection",
        )
    return found


def _compile(session: DbtSession, manifest: Any, models: Sequence[ModelNode]) -> dict[str, str]:
    names = [".".join(manifest.nodes[model.unique_id].fqn) for model in models]
    compiled = invoke(
        session,
        [
            *("compile", "--select", *names, "--indirect-selection", "empty"),
            *("--no-introspect", "--no-populate-cache", "--threads", "1"),
        ],
        with_placeholders(manifest),
    )
    compiled.raise_if_broken("the dbt project cannot be compiled")
    wanted = {model.unique_id: model for model in models}
    code: dict[str, str] = {}
    failed = []
    for result in compiled.result.results:
        model = wanted.get(result.node.unique_id)
        if model is None:
            continue
        if str(result.status) == "success":
            code[model.unique_id] = result.node.compiled_code
        else:
            failed.append(f"{model.title}: {' '.join(str(result.message).split())[:500]}")
    raise_refusals(failed)
    missing = [m.title for m in models if m.materialized != "seed" and m.unique_id not in code]
    raise_refusals([f"{title}: dbt did not compile it" for title in missing])
    return code
