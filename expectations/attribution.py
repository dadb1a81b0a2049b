"""Which partitions broke an expectation: its unexpected rows, counted per partition, in SQL.

Costs one query for each failed expectation, and none for those that hold. Great Expectations'
own unexpected-rows query is not used: for a query it renders invalid SQL, and for compound keys a
cross join.
"""

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from expectations.failures import EvaluationFailedError
from expectations.scope import SQL_TYPE
from expectations.session import Session
from expectations.subject import Subject

_UNIQUE = {
    "expect_column_values_to_be_unique": "column",
    "expect_compound_columns_to_be_unique": "column_list",
}


def count_by_partition(
    session: Session, subject: Subject, batch: Any, configuration: Any
) -> dict[str, int] | None:
    """Partition -> unexpected rows, or None when this kind of failure belongs to no row.

    `configuration` is Great Expectations' own, its parameters filled in. SQL that does not select
    the partition column gives None. Raises SQLAlchemy's errors and EvaluationFailedError.
    """
    from sqlalchemy.exc import ProgrammingError

    column = subject.partition_column
    if column is None:
        return None
    kwargs = configuration.kwargs
    if configuration.type == SQL_TYPE:
        statement = _count(_unexpected(kwargs, subject), column)
    elif configuration.type in _UNIQUE and "row_condition" not in kwargs:
        names = kwargs[_UNIQUE[configuration.type]]
        keyed = _duplicates(subject, [names] if isinstance(names, str) else names, column)
        statement = _count(keyed, column)
    else:
        return _by_condition(session, batch, configuration, column)
    try:
        rows = session.query(statement)
    except ProgrammingError as error:
        if getattr(error.orig, "pgcode", None) != "42703":
            raise
        session.errors.pop()
        return None
    return {str(partition): int(count) for partition, count in rows}


def _by_condition(
    session: Session, batch: Any, configuration: Any, column: str
) -> dict[str, int] | None:
    """Ask Great Expectations for the condition that marks a row as unexpected, and count it."""
    import sqlalchemy as sa
    from great_expectations.expectations.registry import get_expectation_impl, get_metric_kwargs
    from great_expectations.validator.metric_configuration import MetricConfiguration

    metric = getattr(get_expectation_impl(configuration.type), "map_metric", None)
    if metric is None or metric in {"column_values.unique", "compound_columns.unique"}:
        return None
    name = f"{metric}.condition"
    given = get_metric_kwargs(metric_name=name, configuration=configuration)
    validator = session.context.get_validator(batch_request=batch.batch_request)
    wanted = MetricConfiguration(name, given["metric_domain_kwargs"], given["metric_value_kwargs"])
    met_before = len(session.errors)
    try:
        condition, domain, _ = validator.get_metric(wanted)
    except KeyError:
        # It logs what a metric raised, and then misses the metric.
        if len(session.errors) > met_before:
            raise EvaluationFailedError(session.errors[-1]) from None
        return None
    records = validator.execution_engine.get_domain_records(domain)
    if isinstance(records, sa.Select):
        records = records.subquery()
    partition: Any = sa.column(column)
    query = sa.select(partition, sa.func.count()).select_from(records).where(condition)
    with session.engine.connect() as connection:
        found = connection.execute(query.group_by(partition).order_by(partition))
        return {str(value): int(count) for value, count in found}


def _unexpected(kwargs: Mapping[str, Any], subject: Subject) -> sql.Composed:
    text = subject.filled_in(str(kwargs["unexpected_rows_query"]))
    return sql.SQL("({}\n) as unexpected").format(sql.SQL(text))


def _duplicates(subject: Subject, names: list[str], column: str) -> sql.Composed:
    return sql.SQL(
        "(select {partition}, count(*) over (partition by {keys}) as copies"
        " from {source} where num_nonnulls({keys}) > 0) as keyed where copies > 1"
    ).format(
        partition=sql.Identifier(column),
        keys=sql.SQL(", ").join(map(sql.Identifier, names)),
        source=subject.source,
    )


def _count(source: sql.Composable, column: str) -> sql.Composed:
    return sql.SQL("select {}, count(*) from {} group by 1 order by 1").format(
        sql.Identifier(column), source
    )
