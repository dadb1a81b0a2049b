"""How commands that only look reach the warehouse: as the runner, read-only."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from orchestration.cli.session import (
    open_as,
    read_settings,
)
from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Role


@contextmanager
def reading(role: Role = Role.RUNNER) -> Iterator[psycopg.Connection]:
    """A read-only connection. Raises `ConfigurationError` before the first `sluice init`."""
    settings = read_settings()
    warehouse = open_as(settings, role)
    try:
        connection = warehouse.connect(role, autocommit=True, default_transaction_read_only="on")
    except psycopg.OperationalError as error:
        if "does not exist" in str(error) or "authentication failed" in str(error):
            raise ConfigurationError(
                "the warehouse is not set up for Sluice, or its role passwords differ; "
                "run: sluice init",
                code="not_initialized",
            ) from None
        raise
    with connection:
        try:
            yield connection
        except (
            psycopg.errors.UndefinedTable,
            psycopg.errors.UndefinedColumn,
            psycopg.errors.UndefinedFunction,
        ):
            raise ConfigurationError(
                "the warehouse is not set up for this Sluice; run: sluice init",
                code="not_initialized",
            ) from None
