"""Every package that judges a SQLSTATE or a refused login for itself judges as the one table does."""

from types import SimpleNamespace

import psycopg
import pytest
from psycopg import errors

from expectations.failures import describe_database_error
from ingestion.load_errors import as_load_error
from orchestration.errors import FailureKind
from orchestration.failures import classify, ruling
from orchestration.failures.logins import read_refusal
from orchestration.failures.sqlstates import TABLE, UNKNOWN
from orchestration.warehouse.dbt.failures import classify_sqlstate, describe_trouble, failure_of

SQLSTATES = sorted(
    known.sqlstate
    for known in vars(errors).values()
    if isinstance(known, type) and isinstance(getattr(known, "sqlstate", None), str)
)
# The gate's sessions are read-only of their own accord, so there it is a suite that writes.
GATE_DIFFERS = {"25006"}

REFUSALS = [
    ('FATAL:  password authentication failed for user "x"', "28P01"),
    ("fe_sendauth: no password supplied", "28P01"),
    ('FATAL:  role "x" does not exist', "28000"),
    ('FATAL:  role "x" is not permitted to log in', "28000"),
    ('FATAL:  no pg_hba.conf entry for host "1.2.3.4", user "x", database "y"', "28000"),
    ('FATAL:  pg_hba.conf rejects connection for host "1.2.3.4"', "28000"),
    ('FATAL:  Peer authentication failed for user "x"', "28000"),
    ("SSL error: certificate verify failed", "28000"),
    ('server certificate for "a" does not match host name "b"', "28000"),
    ('root certificate file "/x" does not exist', "28000"),
    ("server does not support SSL, but SSL was required", "28000"),
    ('FATAL:  database "x" does not exist', "3D000"),
    ('FATAL:  database "x" is not currently accepting connections', "57P03"),
    ('FATAL:  permission denied for database "x"', "42501"),
    ('FATAL:  unrecognized configuration parameter "x"', "42704"),
    ('FATAL:  invalid value for parameter "x": "y"', "42704"),
    ('FATAL:  permission denied to set parameter "x"', "42704"),
    ("FATAL:  sorry, too many clients already", "53300"),
    ('FATAL:  too many connections for role "x"', "53300"),
    ("FATAL:  remaining connection slots are reserved for roles with …", "53300"),
    ("FATAL:  the database system is starting up", "57P03"),
    ("FATAL:  the database system is shutting down", "57P03"),
    ("FATAL:  the database system is not yet accepting connections", "57P03"),
    ("failed: Connection refused\n\tIs the server running on that host", "08001"),
    ("failed: No such file or directory", "08001"),
    ('could not translate host name "x" to address: Name or service not known', "08001"),
    ("server closed the connection unexpectedly", "08001"),
    ("timeout expired", "08001"),
    ("FATAL:  der Server mag heute nicht", "08001"),
]


class OperationalError(Exception):
    """As psycopg2 raises it: a code, or a text from libpq."""

    def __init__(self, text: str, pgcode: str | None) -> None:
        super().__init__(text)
        self.pgcode = pgcode
        self.diag = SimpleNamespace(message_primary=text)


def test_the_list_of_sqlstates_is_that_of_postgres() -> None:
    assert len(SQLSTATES) > 250
    assert {"57P05", "25P04", "42P01"} <= set(SQLSTATES)


@pytest.mark.parametrize("sqlstate", [*SQLSTATES, "ZZ999", "22ZZZ"])
def test_all_packages_agree_on_every_sqlstate(sqlstate: str) -> None:
    transient = ruling(sqlstate).transient
    alone = OperationalError("server closed the connection unexpectedly", sqlstate)
    assert as_load_error(alone).transient is transient
    if sqlstate not in GATE_DIFFERS:
        assert describe_database_error(alone).transient is transient
    assert classify_sqlstate(sqlstate)[1] is transient
    trouble = describe_trouble(sqlstate, "x", name="X")
    assert failure_of(trouble, "m").transient is transient
    assert classify(as_load_error(alone)).transient is transient


@pytest.mark.parametrize("sqlstate", SQLSTATES)
def test_psycopg_exceptions_are_what_the_table_says(sqlstate: str) -> None:
    error = errors.lookup(sqlstate)("a message")
    failure = classify(error)
    rule = ruling(sqlstate)
    assert failure.transient is rule.transient
    assert failure.kind is (rule.kind or FailureKind.DESTINATION)


@pytest.mark.parametrize(("text", "sqlstate"), REFUSALS)
def test_all_packages_agree_on_every_refused_connection(text: str, sqlstate: str) -> None:
    assert read_refusal(text)[0] == sqlstate
    transient = ruling(sqlstate).transient
    refused = OperationalError(text, None)
    assert as_load_error(refused).transient is transient
    assert describe_database_error(refused).transient is transient
    assert classify(psycopg.OperationalError(text)).transient is transient


def test_entries_are_codes_or_classes_that_exist_and_say_what_to_do() -> None:
    classes = {sqlstate[:2] for sqlstate in SQLSTATES}
    for entry, rule in TABLE.items():
        assert entry in (SQLSTATES if len(entry) == 5 else classes), entry
        assert rule.advice or rule == UNKNOWN
        if rule.kind is FailureKind.CONFIGURATION:
            assert not rule.transient


def test_what_nobody_knows_is_permanent() -> None:
    assert ruling("ZZ999") == UNKNOWN
    assert not UNKNOWN.transient
