"""Which partitions broke an expectation: its unexpected rows, counted per partition, in SQL.

Costs one query for each failed expectation, and none for those that hold. Great Expectations'
own unexpected-rows query is not used: for a query it renders invalid SQL, and for compound keys a
cross join.
"""

from collections.abc import Mapping, Sequence
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
        statement = _count(unexpected_by_sql(kwargs, subject), column)
    elif (names := unique_columns(configuration)) is not None:
        statement = _count(duplicates(subject, names, [column]), column)
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


def unique_columns(configuration: Any) -> list[str] | None:
    """The columns of a key whose duplicates are asked for, None for every other expectation."""
    kwargs = configuration.kwargs
    if configuration.type not in _UNIQUE or "row_condition" in kwargs:
        return None
    names = kwargs[_UNIQUE[configuration.type]]
    return [names] if isinstance(names, str) else list(names)


def unexpected_by_sql(kwargs: Mapping[str, Any], subject: Subject) -> sql.Composed:
    """What stands after `from` to read the unexpected rows of a suite's own SQL."""
    text = subject.filled_in(str(kwargs["unexpected_rows_query"]))
    return sql.SQL("({}\n) as unexpected").format(sql.SQL(text))


def duplicates(subject: Subject, names: Sequence[str], shown: Sequence[str]) -> sql.Composed:
    """What stands after `from` to read columns of the rows that share a key with another."""
    return sql.SQL(
        "(select {shown} from (select {shown}, count(*) over (partition by {keys}) as copies"
        " from {source} where num_nonnulls({keys}) > 0) as keyed where copies > 1) as shared"
    ).format(
        shown=sql.SQL(", ").join(map(sql.Identifier, shown)),
        keys=sql.SQL(", ").join(map(sql.Identifier, names)),
        source=subject.source,
    )


def unexpected_by_condition(
    session: Session, batch: Any, configuration: Any
) -> tuple[Any, Any] | None:
    """Great Expectations' rows, and its condition for the unexpected ones, as SQLAlchemy has them."""
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
    return records.subquery() if isinstance(records, sa.Select) else records, condition


def _by_condition(
    session: Session, batch: Any, configuration: Any, column: str
) -> dict[str, int] | None:
    import sqlalchemy as sa

    found = unexpected_by_condition(session, batch, configuration)
    if found is None:
        return None
    records, condition = found
    partition: Any = sa.column(column)
    query = sa.select(partition, sa.func.count()).select_from(records).where(condition)
    with session.engine.connect() as connection:
        rows = connection.execute(query.group_by(partition).order_by(partition))
        return {str(value): int(count) for value, count in rows}


def _count(source: sql.Composable, column: str) -> sql.Composed:
    return sql.SQL("select {}, count(*) from {} group by 1 order by 1").format(
        sql.Identifier(column), source
    )
