"""What each role is refused: every action is allowed to the roles named beside it, and to no other."""

from collections.abc import Iterator

import psycopg
import pytest
from clones import cloned_warehouse

from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.roles import READER_ROLE

EXTRACTOR, TRANSFORMER, GATE = Role.EXTRACTOR, Role.TRANSFORMER, Role.GATE
PUBLISHER, RUNNER, REVIEWER = Role.PUBLISHER, Role.RUNNER, Role.REVIEWER
ANALYST, WEBHOOK, CONSOLE = Role.ANALYST, Role.WEBHOOK, Role.CONSOLE
NOBODY: set[Role] = set()

# Without read-only transactions, which the gate and the console have besides.
ALLOWED: dict[str, set[Role]] = {
    # what arrived
    "insert into staging.flights__weather (origin) values ('EWR')": {EXTRACTOR},
    "delete from staging.flights__weather": {EXTRACTOR},
    "update staging.flights__weather set temp = 0": NOBODY,
    "truncate staging.flights__weather": NOBODY,
    "drop table staging.flights__weather": NOBODY,
    "create table staging.mine (a int)": NOBODY,
    "select * from staging.flights__weather": {EXTRACTOR, TRANSFORMER, GATE},
    "select * from live.flights__weather": {TRANSFORMER, GATE, ANALYST},
    "create view live.mine as select 1": NOBODY,
    "insert into ops.artifacts (artifact_id) values ('a')": {EXTRACTOR},
    "update ops.artifacts set state = 'adopted'": {EXTRACTOR},
    "update ops.artifacts set acceptance = 'accepted'": {RUNNER},
    "update ops.artifacts set pipeline = 'another'": NOBODY,
    "delete from ops.artifacts": NOBODY,
    # what was kept out
    "select payload from quarantine.records": {EXTRACTOR, REVIEWER},
    "select rule from quarantine.records": {EXTRACTOR, REVIEWER, RUNNER, CONSOLE},
    "select correction from quarantine.retry_records": {EXTRACTOR, REVIEWER},
    "insert into quarantine.records (pipeline) values ('p')": {EXTRACTOR},
    "insert into quarantine.records (decision) values ('discarded')": NOBODY,
    "update quarantine.records set decision = 'discarded'": NOBODY,
    "update quarantine.records set payload = '{}'": NOBODY,
    "delete from quarantine.records": NOBODY,
    "select quarantine.discard_records(array[1], 'because')": {REVIEWER},
    "select quarantine.release_partition('a', 'because')": {REVIEWER},
    "select ops.approve_version('v', 'because')": {REVIEWER},
    "select ops.reject_version('v', 'because')": {REVIEWER},
    "insert into ops.waivers default values": NOBODY,
    # what is built and judged
    "create table store.mine (a int)": {TRANSFORMER},
    "select ops.seal_relation('mine')": {TRANSFORMER},
    "select ops.create_version_schema('v_0123456789abcdef')": {TRANSFORMER},
    "insert into ops.versions (version_id) values ('v')": {TRANSFORMER},
    "update ops.versions set state = 'passed'": {RUNNER, PUBLISHER},
    "update ops.versions set manifest_id = 'another'": NOBODY,
    "delete from ops.versions": NOBODY,
    "insert into ops.verdicts (pipeline) values ('p')": {RUNNER},
    "update ops.verdicts set verdict = 'passed'": NOBODY,
    "update ops.judgements set verdict = 'passed'": {RUNNER},
    # what is published
    "create view analytics.mine as select 1": {PUBLISHER},
    "create view slot_a.mine as select 1": {PUBLISHER},
    "create view deferred.mine as select 1": {PUBLISHER},
    "create view former.mine as select 1": {PUBLISHER},
    "update ops.publication_pointer set active_slot = 'a'": {PUBLISHER},
    "insert into ops.publications (pipeline, version_id) values ('a', 'b')": {PUBLISHER},
    "update ops.publications set version_id = 'another'": NOBODY,
    "delete from ops.publications": NOBODY,
    "select ops.end_reader(1, 'because')": {PUBLISHER},
    "drop schema analytics cascade": NOBODY,
    # what happened
    "select * from ops.runs": {RUNNER, REVIEWER, PUBLISHER, GATE, CONSOLE},
    "update ops.runs set owner = 'me@example.com'": {RUNNER},
    "delete from ops.runs": NOBODY,
    "delete from ops.checkpoints": NOBODY,
    "insert into ops.operator_actions (action) values ('a')": {RUNNER, REVIEWER, PUBLISHER},
    "update ops.operator_actions set reason = 'another'": NOBODY,
    "delete from ops.operator_actions": NOBODY,
    "select ops.acquire_lease('run/r', 'me', interval '1 minute')": {RUNNER},
    "update ops.leases set fence = 1": NOBODY,
    "select ops.drop_runs('l', 1, '{}')": {RUNNER},
    # what others send
    "select ops.receive_event('a', 'b', repeat('0', 64), '{}', '{}')": {WEBHOOK},
    "select * from ops.inbox": {RUNNER, REVIEWER, CONSOLE},
    "insert into ops.inbox (source) values ('a')": NOBODY,
    "update ops.inbox set event = '{}'": NOBODY,
    "delete from ops.inbox": NOBODY,
    "insert into ops.inbox_work (inbox_id, pipeline) values (1, 'flights')": NOBODY,
    "select ops.forget_events(30)": {RUNNER},
    # the database and the server
    "select ops.create_preview_schema('dev_ann')": {ANALYST},
    "create schema mine": NOBODY,
    "create table public.mine (a int)": NOBODY,
    "create table ops.mine (a int)": NOBODY,
    "alter table ops.runs add column mine int": NOBODY,
    "update ops.schema_migrations set checksum = 'another'": NOBODY,
    "create role mine": NOBODY,
    "alter role sluice_owner password 'mine'": NOBODY,
    "grant sluice_publisher to sluice_reader": NOBODY,
    "set role sluice_owner": NOBODY,
    "set role sluice_store": NOBODY,
    "select rolpassword from pg_authid": NOBODY,
    "select pg_read_file('postgresql.conf')": NOBODY,
    "copy (select 1) to program 'true'": NOBODY,
}


REFUSED = "42501"


@pytest.fixture(scope="module")
def shared(server: EmbeddedServer, template: str) -> Iterator[Warehouse]:
    """One for all roles: whatever they may do is taken back."""
    with cloned_warehouse(server, template) as cloned:
        yield cloned


def attempt(connection: psycopg.Connection, statement: str) -> str | None:
    """The SQLSTATE of what the statement meets; nothing of it is kept."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
    except psycopg.DatabaseError as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize("role", [*Role, READER_ROLE])
def test_a_role_is_refused_whatever_is_the_work_of_another(
    server: EmbeddedServer, shared: Warehouse, role: str
) -> None:
    url = server.superuser_url(shared.database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"set session authorization {role}".encode())
        refused = {statement for statement in ALLOWED if attempt(connection, statement) == REFUSED}
    allowed = {statement for statement, roles in ALLOWED.items() if role in roles}
    assert {
        "refused without need": refused & allowed,
        "allowed, though it is the work of another": set(ALLOWED) - refused - allowed,
    } == {
        "refused without need": set(),
        "allowed, though it is the work of another": set(),
    }


def test_no_statement_of_the_table_is_refused_for_what_it_says(
    server: EmbeddedServer, shared: Warehouse
) -> None:
    """A misspelt one would be allowed to everybody or to nobody, and would prove nothing."""
    with psycopg.connect(server.superuser_url(shared.database), autocommit=True) as connection:
        met = {statement: attempt(connection, statement) or "" for statement in ALLOWED}
    # Only the relation that is to be sealed does not exist.
    assert [statement for statement, state in met.items() if state.startswith("42")] == [
        "select ops.seal_relation('mine')"
    ]


@pytest.mark.parametrize("role", [GATE, CONSOLE])
def test_who_only_looks_cannot_write_by_mistake_either(shared: Warehouse, role: Role) -> None:
    with shared.connect(role) as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("create table public.mine (a int)")
