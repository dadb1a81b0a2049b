"""dbt's data tests on the relations of one version: each becomes an outcome, none stores a row.

A test that could not be evaluated is an error, never a failure of the data.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestration.errors import FailureKind, InternalError
from orchestration.warehouse.dbt.failures import failure_of
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.patching import with_tests
from orchestration.warehouse.dbt.project import compile_tests
from orchestration.warehouse.dbt.session import DbtSession, Invocation, invoke
from orchestration.warehouse.dbt.test_reads import TestNode, read_test
from orchestration.warehouse.segments.places import IN_STORE, Places

TestStatus = Literal["pass", "warn", "fail", "error"]


@dataclass(frozen=True)
class TestOutcome:
    """One data test on one version; `failures` counts failing rows, None after an error.

    `model` is the model it is attached to: None for one on a source, which `resource` names, and
    for a test of its own that reads several. `transient`: evaluating it again may help.
    """

    unique_id: str
    name: str
    status: TestStatus
    severity: Literal["error", "warn"]
    model: str | None = None
    resource: str | None = None
    column: str | None = None
    failures: int | None = None
    message: str = ""
    transient: bool = False


def run_tests(
    session: DbtSession,
    graph: ProjectGraph,
    relations: Mapping[str, str],
    models: Collection[str] | None = None,
    statements: Mapping[str, str | None] | None = None,
    places: Places = IN_STORE,
) -> list[TestOutcome]:
    """Runs every data test that reads one of `models` (default: all) or a source of theirs.

    `relations` maps every model of the graph to its relation, `places` says where that stands. With
    `statements` (unique id → SQL) those tests are run, each as it says there; None leaves it to
    dbt. The session's role only reads. Raises `DestinationFailure` when the warehouse is away.
    """
    chosen = list(chosen_tests(graph, relations, models) if statements is None else statements)
    if not chosen:
        return []
    names = [".".join(graph.manifest.nodes[unique_id].fqn) for unique_id in chosen]
    done = invoke(
        session,
        [
            *("test", "--select", *names, "--threads", str(session.threads)),
            *("--indirect-selection", "empty", "--resource-type", "test"),
        ],
        with_tests(graph, relations, statements or {}, places),
    )
    done.raise_if_broken("dbt could not run the data tests")
    results = {result.node.unique_id: result for result in done.result.results}
    _raise_when_away(done)
    return [
        _outcome(graph.manifest.nodes[unique_id], results.get(unique_id), done, graph)
        for unique_id in chosen
    ]


def chosen_tests(
    graph: ProjectGraph, relations: Mapping[str, str], models: Collection[str] | None = None
) -> list[str]:
    """Unique ids of the tests that read one of `models` (default: all) or a source of theirs.

    Those that also read models outside the graph are left out.
    """
    return _chosen(graph, relations, set(models if models is not None else relations))


def read_tests(
    session: DbtSession, graph: ProjectGraph, unique_ids: Collection[str]
) -> list[TestNode]:
    """These tests as values, compiled with constant names; the answers of dbt are kept.

    Raises `ConfigurationError` for a test that cannot be compiled.
    """
    tests = [read_test(graph, unique_id) for unique_id in unique_ids]
    fixed = [test.unique_id for test in tests if not test.hidden]
    compiled = compile_tests(session, graph.manifest, fixed)
    return [
        test.with_code(compiled[test.unique_id]) if test.unique_id in compiled else test
        for test in tests
    ]


def _chosen(graph: ProjectGraph, relations: Mapping[str, str], models: set[str]) -> list[str]:
    wanted = {graph.model(name).unique_id for name in models}
    sources = _sources(graph, models)
    reachable = {graph.model(name).unique_id for name in relations} | _sources(graph, relations)
    chosen = []
    for unique_id, node in sorted(graph.manifest.nodes.items()):
        if node.resource_type != "test":
            continue
        read = set(node.depends_on.nodes)
        if read & (wanted | sources) and read <= reachable:
            chosen.append(unique_id)
    return chosen


def _sources(graph: ProjectGraph, models: Collection[str]) -> set[str]:
    """The sources that these models read, by unique id."""
    resources = {resource for name in models for resource in graph.model(name).resources}
    return {
        unique_id
        for unique_id, source in graph.manifest.sources.items()
        if f"{source.source_name}.{source.name}" in resources
    }


def _raise_when_away(done: Invocation) -> None:
    for trouble in done.troubles.values():
        failure = failure_of(trouble, "the data tests")
        if failure.kind is FailureKind.DESTINATION:
            raise failure


def _outcome(node: Any, result: Any, done: Invocation, graph: ProjectGraph) -> TestOutcome:
    if result is None:
        raise InternalError(f"dbt did not run the test {node.name}; give it a name of its own")
    status = str(result.status)
    known: dict[str, TestStatus] = {"pass": "pass", "warn": "warn", "fail": "fail"}
    outcome = known.get(status, "error")
    message, transient = "", False
    if outcome == "error":
        trouble = done.troubles.get(node.unique_id)
        if trouble is not None:
            failure = failure_of(trouble, f"{node.name} ({node.original_file_path})")
            message, transient = failure.message, failure.transient
        else:
            text = " ".join(str(result.message).split())[:1000]
            message = f"{node.name} ({node.original_file_path}): {text}"
    elif outcome != "pass":
        message = f"{result.failures} failing row(s); see {node.original_file_path}"
    attached = graph.manifest.nodes.get(getattr(node, "attached_node", None) or "")
    sources = [
        graph.manifest.sources[name]
        for name in node.depends_on.nodes
        if name in graph.manifest.sources
    ]
    return TestOutcome(
        unique_id=node.unique_id,
        name=node.name,
        status=outcome,
        severity="warn" if str(node.config.severity).lower() == "warn" else "error",
        model=attached.name if attached is not None else None,
        resource=f"{sources[0].source_name}.{sources[0].name}"
        if sources and attached is None
        else None,
        column=getattr(node, "column_name", None),
        failures=None if outcome == "error" else int(result.failures or 0),
        message=message,
        transient=transient,
    )
