"""Who may read what was kept out, and who may decide: reviewers, through functions, and nobody else."""

import psycopg
import pytest
from psycopg import sql
from quarantine_bench import Bench

from orchestration.warehouse.connections import Role, Warehouse

DECISIONS = [
    "select quarantine.discard_records(array[1], 'because')",
    "select quarantine.release_partition('a', 'because')",
    "select * from quarantine.request_retry('[{\"record_id\": 1}]', 'because')",
    "select quarantine.keep_held('[]', 'because')",
]
OTHERS = [role for role in Role if role is not Role.REVIEWER]
FORBIDDEN = [
    *((role, decision) for role in OTHERS for decision in DECISIONS),
    *(
        (role, "select payload, correction from quarantine.records")
        for role in OTHERS
        if role is not Role.EXTRACTOR
    ),
    (Role.RUNNER, "select correction from quarantine.retry_records"),
    (Role.RUNNER, "update quarantine.partitions set decision = 'released'"),
    (
        Role.RUNNER,
        "insert into quarantine.partitions (pipeline, decision) values ('p', 'released')",
    ),
    (Role.EXTRACTOR, "update quarantine.records set decision = 'discarded'"),
    (
        Role.EXTRACTOR,
        "insert into quarantine.records (pipeline, decision) values ('p', 'discarded')",
    ),
    (Role.EXTRACTOR, "insert into quarantine.retries (pipeline) values ('p')"),
    (Role.REVIEWER, "update quarantine.records set decision = 'discarded'"),
    (Role.REVIEWER, "update quarantine.partitions set decision = 'released'"),
    (Role.REVIEWER, "update ops.artifacts set acceptance = 'accepted'"),
    (Role.REVIEWER, "delete from quarantine.decisions"),
    (Role.REVIEWER, "update quarantine.decisions set actor = 'somebody'"),
    (Role.REVIEWER, "insert into quarantine.decisions (record_id, event) values (1, 'retried')"),
    (Role.REVIEWER, "insert into quarantine.retries (pipeline) values ('p')"),
    (Role.REVIEWER, "update ops.operator_actions set reason = 'another'"),
    (Role.REVIEWER, "select quarantine.settle_retry(1, 'a', 'b', '[]')"),
    (Role.REVIEWER, "select quarantine.settle_corrections('a', '[]')"),
    (Role.REVIEWER, "select * from staging.flights__airlines"),
]


@pytest.mark.parametrize(("role", "statement"), FORBIDDEN)
def test_a_role_decides_and_reads_nothing_that_is_not_its_own(
    warehouse: Warehouse, role: Role, statement: str
) -> None:
    with (
        warehouse.connect(role) as connection,
        pytest.raises(
            (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
        ),
    ):
        connection.execute(statement.encode())


@pytest.mark.parametrize("statement", [*DECISIONS, "select rule from quarantine.records"])
def test_a_reader_of_published_data_decides_and_reads_nothing(
    warehouse: Warehouse, statement: str
) -> None:
    with warehouse.connect() as owner:
        owner.execute("set role sluice_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute(statement.encode())


def test_a_person_with_a_login_of_their_own_decides_under_their_own_name(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    login = f"alice_{bench.warehouse.database}"
    name = sql.Identifier(login)
    with bench.warehouse.connect(autocommit=True) as owner:
        owner.execute(sql.SQL("create role {} login in role sluice_reviewer").format(name))
        try:
            url = bench.warehouse.owner_url.replace("sluice_owner", login, 1)
            with psycopg.connect(url, autocommit=True) as alice:
                alice.execute("select quarantine.discard_records(array[1], 'seen')")
                alice.execute(
                    "select quarantine.request_retry(%s, 'seen')",
                    ['[{"record_id": 2, "correction": {"carrier": "DL", "name": "Delta"}}]'],
                )
            bench.retry(2)
        finally:
            owner.execute(sql.SQL("drop role {}").format(name))
    assert bench.query(
        "select decision, decided_by from quarantine.records order by record_id"
    ) == [
        ("discarded", login),
        ("retried", login),
    ]
    assert bench.query("select distinct actor from ops.operator_actions") == [(login,)]


STAYS = [
    ("delete from quarantine.records", "nothing leaves the quarantine"),
    ("update quarantine.records set payload = '{}'", "stays as it is"),
    ("update quarantine.records set source_ref = 'x'", "stays as it is"),
    ("update quarantine.records set error = 'x' where record_id = 1", "is decided: discarded"),
    (
        (
            "insert into quarantine.records (pipeline, resource, partition, artifact_id, run_id, "
            "source_ref, rule, error, payload, contract_version) select pipeline, resource, partition, "
            "artifact_id, run_id, 'x', rule, error, payload, contract_version "
            "from quarantine.records limit 1"
        ),
        "is quarantined with its artifact",
    ),
]


@pytest.mark.parametrize(("statement", "refusal"), STAYS)
def test_not_even_the_owner_changes_what_was_kept_out_or_decided(
    bench: Bench, statement: str, refusal: str
) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.discard(1)
    with pytest.raises(psycopg.errors.DatabaseError, match=refusal):
        bench.query_as_owner(statement)


def test_a_record_cannot_be_called_retried_without_a_revision_that_has_it(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    with pytest.raises(psycopg.errors.DatabaseError, match="no accepted revision has it"):
        bench.query_as_owner(
            "update quarantine.records set decision = 'retried', retried_into = artifact_id, "
            "decided_by = 'x', decided_at = now(), decision_reason = 'x'"
        )


def test_an_artifact_whose_quarantine_lacks_a_record_is_not_adopted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestration.stages import extract

    bench.send(AA="")
    # As if one record more had been counted than was written.
    monkeypatch.setattr(extract, "keep_out", lambda *_: 1)
    with pytest.raises(psycopg.errors.DatabaseError, match="0 records are quarantined"):
        bench.fetch()
    assert bench.query("select state from ops.artifacts") == [("loading",)]
