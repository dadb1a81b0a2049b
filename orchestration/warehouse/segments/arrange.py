"""What Sluice makes itself before dbt builds: merged segments, and views that need no new segment."""

import psycopg

from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.segments.merge import merge_segments


def arrange_segments(connection: psycopg.Connection, writer: Writer) -> None:
    """The transformer's connection in autocommit, after everything was registered as loading."""
    for planned in writer.plan.merges:
        merge_segments(connection, planned)
    with connection.transaction():
        for text in writer.views_without_build():
            connection.execute(text.encode())
