"""Evaluates suites on Postgres and concludes a verdict for each.

An outage, a missing relation or a missing column is an error of the verdict, classified as
transient or permanent; it never reads as a failed expectation. Results hold aggregates,
and the keys of a few failing rows.
"""

import time
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from expectations.asking import Asked, ask, of_each_partition
from expectations.attribution import count_by_partition
from expectations.examples import examples_of
from expectations.failures import EvaluationFailedError, describe_database_error
from expectations.parameters import Value, plain_values, used_parameters
from expectations.results import result_from
from expectations.scope import SHAPE_TYPES
from expectations.session import Session, open_session
from expectations.subject import Subject
from expectations.suite import Suite, SuiteExpectation
from expectations.verdict import EvaluationError, ExpectationResult, Verdict

# These say themselves that a column is missing, which is then a failure and not an error.
_TOLERATE_MISSING = frozenset(
    {
        "expect_column_to_exist",
        "expect_table_columns_to_match_ordered_list",
        "expect_table_columns_to_match_set",
    }
)
_RESULT_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}


def evaluate_suite(
    suite: Suite,
    connection_url: str,
    *,
    schema: str,
    table: str | None = None,
    query: str | None = None,
    parameters: Mapping[str, Value] | None = None,
    partition_column: str | None = None,
    settings: Mapping[str, str] | None = None,
    statement_timeout_s: float = 600,
) -> Verdict:
    """Evaluate one suite; see `evaluate_many`."""
    subject = Subject(suite, schema, table, query, parameters or {}, partition_column)
    [verdict] = evaluate_many(
        [subject], connection_url, settings=settings, statement_timeout_s=statement_timeout_s
    )
    return verdict


def evaluate_many(
    subjects: Iterable[Subject],
    connection_url: str,
    *,
    settings: Mapping[str, str] | None = None,
    statement_timeout_s: float = 600,
) -> list[Verdict]:
    """Evaluate each subject, in order, over one connection for each run of equal schemas.

    `connection_url` is a libpq URL (`postgresql://user@/db?host=/folder`). `settings` are session
    settings such as `sluice.manifest`. Every session is read-only. Raises nothing for what the
    database does; that is in the verdicts. Raises ValueError for a parameter without time zone.
    """
    verdicts: list[Verdict] = []
    for schema, group in groupby(subjects, key=lambda subject: subject.schema):
        waiting = list(group)
        try:
            with open_session(
                connection_url,
                search_path=schema,
                settings=settings or {},
                statement_timeout_s=statement_timeout_s,
            ) as session:
                verdicts += [_evaluate(session, subject) for subject in waiting]
        except EvaluationFailedError as failure:
            # Only opening a session raises this, so none of the group has a verdict yet.
            verdicts += [
                Verdict.conclude(subject.suite.name, (), 0, failure.error) for subject in waiting
            ]
    return verdicts


def _evaluate(session: Session, subject: Subject) -> Verdict:
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.datasource.fluent.interfaces import TestConnectionError
    from great_expectations.exceptions import GreatExpectationsError
    from sqlalchemy.exc import SQLAlchemyError

    started = time.monotonic()
    session.errors.clear()
    given = plain_values(subject.parameters)
    results: list[ExpectationResult] = []
    error: EvaluationError | None = None
    try:
        columns = frozenset(session.columns(subject.source))
        able = []
        for item in subject.suite.expectations:
            obstacle = _obstacle(item, columns, given)
            if obstacle:
                results.append(result_from(item, None, obstacle, manner=subject.manner))
            else:
                able.append(item)
        results += _evaluate_able(session, subject, able, given)
    except EvaluationFailedError as failure:
        error = failure.error
    except (SQLAlchemyError, TestConnectionError) as failure:
        error = describe_database_error(failure)
    except ValidationError:
        message = "the suite has arguments of a wrong type; check the suite, it names the line"
        error = EvaluationError("evaluation", message, transient=False)
    except GreatExpectationsError as failure:
        error = _unexplained(session, type(failure).__name__)
    order = {item.expectation_id: at for at, item in enumerate(subject.suite.expectations)}
    results.sort(key=lambda result: order[result.expectation_id])
    return Verdict.conclude(subject.suite.name, results, time.monotonic() - started, error)


def _evaluate_able(
    session: Session,
    subject: Subject,
    expectations: list[SuiteExpectation],
    given: Mapping[str, Any],
) -> list[ExpectationResult]:
    """Shape expectations look at the table, the others at the query, if there is one."""
    if subject.query is None:
        return _validate(session, subject, _table(session, subject), expectations, given)
    results: list[ExpectationResult] = []
    shape = [item for item in expectations if item.type in SHAPE_TYPES]
    rows = [item for item in expectations if item.type not in SHAPE_TYPES]
    if shape and subject.table is not None:
        results += _validate(session, subject, _table(session, subject), shape, given)
    elif shape:
        message = "types are not visible through a query; name the table that it reads"
        error = EvaluationError("evaluation", message, transient=False)
        results += [result_from(item, None, error, manner=subject.manner) for item in shape]
    if rows:
        asset = session.datasource.add_query_asset(f"query-{time.monotonic_ns()}", subject.query)
        results += _validate(session, subject, asset, rows, given)
    return results


def _validate(
    session: Session,
    subject: Subject,
    asset: Any,
    expectations: list[SuiteExpectation],
    given: Mapping[str, Any],
) -> list[ExpectationResult]:
    from great_expectations.core.expectation_suite import ExpectationSuite

    asked = ask(expectations, subject)
    session.row_queries[:] = [item.beginning for item in asked if item.beginning is not None]
    if subject.query is not None:
        session.row_queries.append(subject.query)
    suite = ExpectationSuite(
        name=subject.suite.name,
        expectations=[item.configuration(position) for position, item in enumerate(asked)],
    )
    batch = asset.add_batch_definition_whole_table("whole").get_batch()
    found = batch.validate(
        suite, result_format=dict(_RESULT_FORMAT), expectation_parameters=dict(given)
    )
    session.row_queries.clear()
    return [
        _result(session, subject, batch, asked[one.expectation_config.meta["position"]], one)
        for one in found.results
    ]


def _result(
    session: Session, subject: Subject, batch: Any, asked: Asked, outcome: Any
) -> ExpectationResult:
    if _raised(outcome.exception_info):
        error = _unexplained(session, _exception_name(outcome.exception_info))
        return result_from(asked.item, None, error, manner=subject.manner)
    if asked.of_each_partition:
        result = result_from(asked.item, outcome, manner=subject.manner)
        return of_each_partition(session, subject, asked, result)
    if outcome.success:
        return result_from(asked.item, outcome, manner=subject.manner)
    configuration = outcome.expectation_config
    partitions = count_by_partition(session, subject, batch, configuration)
    examples = examples_of(session, subject, batch, configuration)
    return result_from(asked.item, outcome, None, partitions, subject.manner, examples)


def _table(session: Session, subject: Subject) -> Any:
    # The schema comes from the search path; naming it on the asset is deprecated.
    return session.datasource.add_table_asset(
        f"table-{time.monotonic_ns()}", table_name=subject.table
    )


def _obstacle(
    item: SuiteExpectation, columns: frozenset[str], given: Mapping[str, Any]
) -> EvaluationError | None:
    missing = sorted(used_parameters(item.kwargs) - set(given))
    if missing:
        message = f"no value for parameter {', '.join(missing)}; give it to the evaluation"
        return EvaluationError("missing_parameter", message, transient=False)
    absent = sorted(set(item.columns) - columns)
    if absent and item.type not in _TOLERATE_MISSING:
        message = f"column {', '.join(absent)} does not exist; correct the suite or the model"
        return EvaluationError("missing_column", message, transient=False)
    return None


def _raised(information: Mapping[Any, Any] | None) -> bool:
    """Great Expectations reports exceptions flat, or one for each metric that raised."""
    if not information:
        return False
    if "raised_exception" in information:
        return bool(information["raised_exception"])
    return any(_raised(value) for value in information.values() if isinstance(value, Mapping))


def _exception_name(information: Mapping[Any, Any]) -> str:
    """The class of the exception; its text may quote values and is never read."""
    for value in information.values():
        if isinstance(value, Mapping):
            return _exception_name(value)
    trace = str(information.get("exception_traceback") or "").strip()
    name = trace.rpartition("\n")[2].partition(":")[0].rpartition(".")[2]
    return name if name.isidentifier() else "an error"


def _unexplained(session: Session, what: str) -> EvaluationError:
    """The database's own error, the transient one first, or a word on what failed without one."""
    errors = sorted(session.errors, key=lambda error: not error.transient)
    if errors:
        return errors[0]
    message = f"Great Expectations raised {what}; check the arguments and the column's type"
    return EvaluationError("evaluation", message, transient=False)
