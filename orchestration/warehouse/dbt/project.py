"""Reading the dbt project: parsed once for each state of it, compiled with constant names, never run.

No connection to the warehouse is made here; a broken project is a configuration error that names
the file.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.answers import Answers, Form
from orchestration.warehouse.dbt.checks import declared_refusals, raise_refusals
from orchestration.warehouse.dbt.graph import ModelNode, OutsideModel, ProjectGraph
from orchestration.warehouse.dbt.patching import with_placeholders
from orchestration.warehouse.dbt.profile import database_of
from orchestration.warehouse.dbt.reading import closure, read_model
from orchestration.warehouse.dbt.session import DbtSession, invoke

_NODE_TYPES = ("--resource-type", "model", "--resource-type", "seed")


# Whatever database the session is in, dbt parses in this one, so that the answer serves all.
_PARSE_DATABASE = "sluice_parsed"
_PARSE_URL = f"postgresql://nobody@localhost/{_PARSE_DATABASE}"
_JSON: Form[Any] = Form(lambda value: json.dumps(value).encode(), json.loads)


def parse_project(session: DbtSession, answers: Answers | None = None) -> Any:
    """dbt's manifest of the project. Raises `ConfigurationError` when dbt refuses the project."""
    answers = answers or Answers(session)
    parsing = session
    if not answers.state.sees_target:
        parsing = replace(session, url=_PARSE_URL)
    manifest = answers.recall(["parse"], partial(_parse, parsing), _manifest_form())
    _move(manifest, database_of(session.url))
    return manifest


def _parse(session: DbtSession) -> Any:
    parsed = invoke(session, ["parse"])
    parsed.raise_if_broken("the dbt project cannot be parsed")
    # Files are listed for dbt's own partial parsing, each with the folder that it was read from.
    parsed.result.files = {}
    return parsed.result


def _move(manifest: Any, database: str) -> None:
    for node in (*manifest.nodes.values(), *manifest.sources.values()):
        if node.database != _PARSE_DATABASE:
            continue
        node.database = database
        if getattr(node, "relation_name", None):
            node.relation_name = node.relation_name.replace(_PARSE_DATABASE, database, 1)


def _manifest_form() -> Form[Any]:
    """The form in which dbt itself keeps manifests between invocations."""
    from dbt.adapters.factory import load_plugin
    from dbt.contracts.graph.manifest import Manifest
    from dbt.parser.manifest import extended_mashumaro_encoder, extended_mashumuro_decoder

    def load(content: bytes) -> Any:
        # Parsing would have loaded it; a manifest looks macros up by what its adapter inherits.
        load_plugin("postgres")
        return Manifest.from_msgpack(content, decoder=extended_mashumuro_decoder)

    return Form(lambda manifest: bytes(manifest.to_msgpack(extended_mashumaro_encoder)), load)


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
    # Nobody knows which files a manifest from elsewhere was made of, so nothing is kept for it.
    answers = Answers(session if manifest is None else replace(session, cache_dir=None))
    manifest = parse_project(session, answers) if manifest is None else manifest
    selected = answers.recall(
        ["ls", list(selection)], partial(_select, session, manifest, selection), _JSON
    )
    needed = closure(manifest, selected, others)
    nodes = [read_model(manifest, unique_id, others, session.project_dir) for unique_id in needed]
    models = [model for model in nodes if model.materialized != "ephemeral"]
    refused = []
    for model in models:
        language = getattr(manifest.nodes[model.unique_id], "language", "sql")
        refused += list(declared_refusals(model, str(language)))
        if getattr(manifest.nodes[model.unique_id], "version", None) is not None:
            refused.append(f"{model.title}: model versions are not supported; rename the model")
    raise_refusals(refused)
    if any(model.depends_on_moment for model in models):
        answers = Answers(replace(session, cache_dir=None))
    names = sorted(model.unique_id for model in models)
    compiled = answers.recall(
        ["compile", names], partial(_compile, session, manifest, models), _JSON
    )
    return ProjectGraph(
        tuple(replace(model, compiled_code=compiled.get(model.unique_id, "")) for model in models),
        others,
        manifest,
    )


def select_models(session: DbtSession, manifest: Any, selection: Sequence[str]) -> set[str]:
    """The names of the models and seeds that dbt's `--select` terms name, without ancestors.

    Raises `ConfigurationError` for terms that select none.
    """
    return {str(manifest.nodes[name].name) for name in _select(session, manifest, selection)}


def _select(session: DbtSession, manifest: Any, selection: Sequence[str]) -> list[str]:
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
            f"the dbt selection {' '.join(selection)!r} selects no model; correct it in the "
            "pipeline, or in --select",
            code="empty_selection",
        )
    return found


def compile_tests(
    session: DbtSession, manifest: Any, unique_ids: Collection[str]
) -> dict[str, str]:
    """unique id → SQL of these data tests, with placeholders for what they read.

    Raises `ConfigurationError` for one that cannot be compiled.
    """
    if not unique_ids:
        return {}
    wanted = {name: manifest.nodes[name] for name in sorted(unique_ids)}
    titles = {name: f"{node.name} ({node.original_file_path})" for name, node in wanted.items()}
    code: dict[str, str] = Answers(session).recall(
        ["compile tests", list(wanted)], partial(_compiled, session, manifest, titles), _JSON
    )
    return code


def _compile(session: DbtSession, manifest: Any, models: Sequence[ModelNode]) -> dict[str, str]:
    code = _compiled(session, manifest, {model.unique_id: model.title for model in models})
    missing = [m.title for m in models if m.materialized != "seed" and m.unique_id not in code]
    raise_refusals([f"{title}: dbt did not compile it" for title in missing])
    return code


def _compiled(session: DbtSession, manifest: Any, titles: Mapping[str, str]) -> dict[str, str]:
    """unique id → compiled code of these nodes; `titles` name them in messages."""
    names = [".".join(manifest.nodes[unique_id].fqn) for unique_id in titles]
    compiled = invoke(
        session,
        [
            *("compile", "--select", *names, "--indirect-selection", "empty"),
            *("--no-introspect", "--no-populate-cache", "--threads", "1"),
        ],
        with_placeholders(manifest),
    )
    compiled.raise_if_broken("the dbt project cannot be compiled")
    code: dict[str, str] = {}
    failed = []
    for result in compiled.result.results:
        title = titles.get(result.node.unique_id)
        if title is None:
            continue
        if str(result.status) == "success":
            code[result.node.unique_id] = result.node.compiled_code
        else:
            failed.append(f"{title}: {' '.join(str(result.message).split())[:500]}")
    raise_refusals(failed)
    return code
