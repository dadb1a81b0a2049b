"""Owner, grants, comments and options of a view, read from one and given to the one in its place."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from orchestration.sql.queries import query
from orchestration.warehouse.names import qualified, statement


@dataclass(frozen=True)
class Grant:
    """One privilege; a grantee of None is everybody, a column of None the whole view."""

    grantee: str | None
    privilege: str
    grantable: bool
    on_column: str | None


@dataclass(frozen=True)
class Appearance:
    """What people may have done to a view; options are `name=value`."""

    owner: str
    options: tuple[str, ...]
    comment: str | None
    column_comments: dict[str, str]
    grants: frozenset[Grant]


def read_appearance(connection: psycopg.Connection, schema: str, view: str) -> Appearance | None:
    """None when there is no such view."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            query("publication_appearance"), {"schema": schema, "view": view}
        ).fetchone()
    return _appearance(row) if row else None


def _appearance(row: dict[str, Any]) -> Appearance:
    return Appearance(
        owner=row["owner"],
        options=tuple(row["options"]),
        comment=row["comment"],
        column_comments=dict(row["column_comments"]),
        grants=frozenset(Grant(**grant) for grant in row["grants"]),
    )


def restore_appearance(
    connection: psycopg.Connection,
    schema: str,
    view: str,
    wanted: Appearance,
    columns: Collection[str],
) -> None:
    """Makes a new view look as another one did, for the columns that it has; in the caller's
    transaction. Options are set where the view is made."""
    new = read_appearance(connection, schema, view)
    if new is None:
        return
    name = qualified(schema, view)
    for step in _comments(name, wanted, columns):
        connection.execute(step)
    grants = {grant for grant in wanted.grants if grant.on_column in {None, *columns}}
    if grants != new.grants:
        # Default privileges may have given more than the old view had.
        for grantee in sorted({grant.grantee or "" for grant in new.grants}):
            connection.execute(
                statement("revoke all on {view} from {who}", view=name, who=_role(grantee))
            )
        for grant in sorted(grants, key=str):
            connection.execute(_grant(name, grant))
    if new.owner != wanted.owner:
        connection.execute(
            statement("alter view {view} owner to {who}", view=name, who=_role(wanted.owner))
        )


def _comments(
    view: sql.Composed, wanted: Appearance, columns: Collection[str]
) -> Iterator[sql.Composed]:
    if wanted.comment is not None:
        text = sql.Literal(wanted.comment)
        yield statement("comment on view {view} is {comment}", view=view, comment=text)
    for column, comment in wanted.column_comments.items():
        if column in columns:
            yield statement(
                "comment on column {view}.{column} is {comment}",
                view=view,
                column=sql.Identifier(column),
                comment=sql.Literal(comment),
            )


def _grant(view: sql.Composed, grant: Grant) -> sql.Composed:
    column = grant.on_column
    return statement(
        "grant {privilege} {columns} on {view} to {who} {option}",
        privilege=sql.SQL(grant.privilege),  # the server's own word
        columns=sql.SQL("({})").format(sql.Identifier(column)) if column else sql.SQL(""),
        view=view,
        who=_role(grant.grantee or ""),
        option=sql.SQL("with grant option" if grant.grantable else ""),
    )


def _role(name: str) -> sql.Composable:
    return sql.Identifier(name) if name else sql.SQL("public")
