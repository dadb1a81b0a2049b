"""Which rows broke an expectation, by their key: the first few, for a person who goes and looks.

The only values of rows that leave the database here, and none of a column that is sensitive.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

from psycopg import sql

from expectations.attribution import duplicates, unexpected_by_condition, unexpected_by_sql
from expectations.attribution import unique_columns as key_of
from expectations.scope import SQL_TYPE
from expectations.session import Session
from expectations.subject import Subject

SHOWN = 5
_LONGEST = 60


def examples_of(
    session: Session, subject: Subject, batch: Any, configuration: Any
) -> tuple[str, ...]:
    """Up to five keys like `carrier=UA, flight=1545`; of SQL, as much of the key as it selects.

    `configuration` is Great Expectations' own, its parameters filled in. Nothing for failures that
    belong to no row. Raises SQLAlchemy's errors and EvaluationFailedError.
    """
    kwargs = configuration.kwargs
    if not subject.row_key:
        return ()
    if configuration.type == SQL_TYPE:
        query = str(kwargs["unexpected_rows_query"])
        # Under another name it would look like the key.
        if any(re.search(rf"\b{re.escape(name)}\b", query) for name in subject.sensitive):
            return ()
        return _named(session, subject, unexpected_by_sql(kwargs, subject))
    if (names := key_of(configuration)) is not None:
        kept = _present(session, subject, subject.source)
        return _named(session, subject, duplicates(subject, names, kept)) if kept else ()
    return _named_by_condition(session, subject, batch, configuration)


def _named(session: Session, subject: Subject, source: sql.Composable) -> tuple[str, ...]:
    columns = _present(session, subject, source)
    if not columns:
        return ()
    statement = sql.SQL("select distinct {columns} from {source} order by {columns} limit {n}")
    rows = session.query(
        statement.format(
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
            source=source,
            n=sql.Literal(SHOWN),
        )
    )
    return tuple(_text(columns, row) for row in rows)


def _named_by_condition(
    session: Session, subject: Subject, batch: Any, configuration: Any
) -> tuple[str, ...]:
    import sqlalchemy as sa

    columns = _present(session, subject, subject.source)
    found = unexpected_by_condition(session, batch, configuration)
    if not columns or found is None:
        return ()
    records, condition = found
    named: list[Any] = [sa.column(name) for name in columns]
    query = sa.select(*named).select_from(records).where(condition).distinct()
    with session.engine.connect() as connection:
        rows = connection.execute(query.order_by(*named).limit(SHOWN))
        return tuple(_text(columns, tuple(row)) for row in rows)


def _present(session: Session, subject: Subject, source: sql.Composable) -> list[str]:
    """The columns of the key that can be read there, in its order."""
    known = set(session.columns(source)) - subject.sensitive
    return [name for name in subject.row_key if name in known]


def _text(columns: Iterable[str], row: tuple[Any, ...]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in zip(columns, row, strict=True))


def _value(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
