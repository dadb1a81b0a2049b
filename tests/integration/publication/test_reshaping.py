"""Changes of shape that the pipeline file allows: what readers, their views and a rollback see."""

from typing import Any

import psycopg
import pytest
from segment_tables import Segment

from orchestration.errors import ConfigurationError, DestinationFailure, LeaseLost
from orchestration.pipelines.shape_changes import AllowedShapeChange
from orchestration.publication.grace import Patience
from orchestration.publication.shape_check import check_version_shapes
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.slots import prepare_slot
from orchestration.warehouse.analysts import add_stand_ins
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease

OLD = "select 1 as number, 'a'::text as name, 1.50::numeric(8,2) as share"
NEW = "select 2::bigint as number, 'b'::text as title, 2.5::numeric(8,2) as share"
ENTRIES = (
    {"retype": "fct.number", "to": "bigint"},
    {"rename": "fct.name", "to": "title"},
    {"drop": "fct.share"},
    {"withdraw": "dim"},
)


def allowed(*entries: dict[str, str]) -> Allowed:
    return Allowed(tuple(AllowedShapeChange(**entry, reason="agreed") for entry in entries))


def change(warehouse: Warehouse, *statements: str) -> None:
    with warehouse.connect(autocommit=True) as owner:
        for statement in statements:
            owner.execute(statement.encode())


def rows(warehouse: Warehouse, statement: str) -> list[tuple[Any, ...]]:
    with warehouse.connect() as owner:
        return owner.execute(statement.encode()).fetchall()


@pytest.fixture
def published(flights: Any) -> Any:
    flights.publish(flights.build({"fct": OLD, "dim": "select 1 as one"}))
    return flights


def refusal(flights: Any, version: Any, *entries: dict[str, str]) -> ConfigurationError:
    """The same before the gate and when it is published; what is published stays."""
    with (
        flights.warehouse.connect(Role.TRANSFORMER) as connection,
        pytest.raises(ConfigurationError) as before_gate,
    ):
        check_version_shapes(connection, flights.name, version, allowed(*entries))
    with pytest.raises(ConfigurationError) as caught:
        flights.prepare(version, allowed=allowed(*entries))
    assert caught.value.message == before_gate.value.message
    assert flights.read("select number, name, share from analytics.fct")[0][0] == 1
    return caught.value


def test_columns_are_dropped_renamed_and_retyped_where_the_pipeline_file_says_so(
    published: Any, warehouse: Warehouse
) -> None:
    old = published.published()
    new = published.build({"fct": NEW.replace(", 2.5::numeric(8,2) as share", "")})
    with warehouse.connect(Role.TRANSFORMER) as connection:
        check_version_shapes(connection, "flights", new, allowed(*ENTRIES))
    prepared = published.prepare(new, allowed=allowed(*ENTRIES))
    assert (prepared.reshaped, prepared.withdrawn) == (("fct",), ("dim",))
    # Before the flip the old version is there in the new shape.
    assert published.read("select * from analytics.fct") == [(1, "a")]
    published.flip(new)
    assert published.read("select * from analytics.fct") == [(2, "b")]
    assert published.read(
        "select column_name::text, data_type::text from information_schema.columns "
        "where table_schema = 'analytics' order by ordinal_position"
    ) == [("number", "bigint"), ("title", "text")]
    back = prepare_slot(warehouse, "flights", old, lease=published.lease, allow_narrower=True)
    assert back.replaced == ()
    published.rollback()
    assert published.read("select * from analytics.fct") == [(1, "a")]
    assert rows(
        warehouse, "select action, target, reason from ops.operator_actions order by action_id"
    )[:2] == [
        (
            "change_shape",
            "fct.name is now title; fct.share was dropped; fct.number was integer and is now bigint",
            "agreed",
        ),
        ("withdraw_model", "dim", "agreed"),
    ]


def test_without_an_entry_nothing_is_taken_and_the_message_says_what_to_write(
    published: Any,
) -> None:
    new = published.build({"fct": NEW})
    failure = refusal(published, new)
    assert failure.code == "shape_change"
    for part in (
        "fct.number was integer and is now bigint",
        "{retype: fct.number, to: bigint, reason: …}",
        "{drop: fct.name, reason: …}",
        "{withdraw: dim, reason: …}",
    ):
        assert part in failure.message
    assert "share" not in failure.message
    half = refusal(published, new, *ENTRIES[1:])
    assert "fct.number" in half.message
    assert "fct.name" not in half.message
    other = refusal(published, new, {"retype": "fct.number", "to": "numeric"}, *ENTRIES[1:])
    assert "fct.number was integer and is now bigint" in other.message


def test_an_entry_allows_one_change_and_then_nothing_more(published: Any) -> None:
    published.publish(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
    again = published.build({"fct": OLD})
    with pytest.raises(ConfigurationError, match=r"fct\.number was bigint and is now integer"):
        published.prepare(again, allowed=allowed(*ENTRIES))


def test_owner_grants_comments_and_options_are_kept(published: Any, warehouse: Warehouse) -> None:
    change(
        warehouse,
        "create role a_dashboard",
        "alter default privileges for role sluice_publisher in schema analytics "
        "grant select on tables to sluice_runner",
        "comment on view analytics.fct is 'one row a number'",
        "comment on column analytics.fct.share is 'how much'",
        "comment on column analytics.fct.name is 'goes'",
        "grant select on analytics.fct to a_dashboard with grant option",
        "grant references (share) on analytics.fct to a_dashboard",
        "revoke select on analytics.fct from sluice_reviewer",
        "alter view analytics.fct set (security_barrier = true)",
    )
    looks = (
        "select obj_description(v.oid, 'pg_class'), col_description(v.oid, a.attnum), v.reloptions, "
        "pg_get_userbyid(v.relowner), a.attacl::text, "
        "(select array_agg(x::text order by x::text) from unnest(v.relacl) x) from pg_class v "
        "join pg_attribute a on a.attrelid = v.oid and a.attname = 'share' "
        "where v.oid = 'analytics.fct'::regclass"
    )
    try:
        before = rows(warehouse, looks)
        assert before[0][0:3] == ("one row a number", "how much", ["security_barrier=true"])
        published.publish(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
        assert rows(warehouse, looks) == before
        with warehouse.connect(Role.REVIEWER) as reviewer, pytest.raises(psycopg.Error):
            reviewer.execute("select number from analytics.fct")
    finally:
        change(
            warehouse,
            "alter default privileges for role sluice_publisher in schema analytics "
            "revoke select on tables from sluice_runner",
            "drop owned by a_dashboard",
            "drop role a_dashboard",
        )


DEPENDANTS = {
    "view": "create view people.v as select name from analytics.fct",
    "materialized view": "create materialized view people.m as select upper(name) x from analytics.fct",
    "function": "create function people.f() returns text begin atomic "
    "select name from analytics.fct; end",
    "row type": "create function people.g() returns setof analytics.fct "
    "language sql as 'select * from analytics.fct'",
    "column": "create table people.t (kept analytics.fct)",
    "rule": "create rule r as on update to analytics.fct do instead nothing",
}


@pytest.mark.parametrize("statement", DEPENDANTS.values(), ids=DEPENDANTS)
def test_a_change_that_breaks_other_peoples_work_is_refused_with_a_list(
    published: Any, warehouse: Warehouse, statement: str
) -> None:
    change(warehouse, "create schema people", statement)
    new = published.build({"fct": NEW})
    failure = refusal(published, new, *ENTRIES)
    assert failure.code == "shape_in_use"
    assert "people." in failure.message or "analytics.fct" in failure.message
    assert "(of sluice_owner)" in failure.message or "rule" in statement
    assert "Beware" in refusal(published, new).message
    change(warehouse, "drop schema people cascade", "drop rule if exists r on analytics.fct")
    assert published.publish(new, allowed=allowed(*ENTRIES)).outcome == "published"


def test_a_dependant_that_comes_while_the_version_is_judged_stops_the_change(
    published: Any, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestration.publication import slots

    plan = slots.plan_slot

    def plan_too_early(*args: Any, **options: Any) -> Any:
        found = plan(*args, **options)
        change(warehouse, "create schema people", DEPENDANTS["view"])
        return found

    monkeypatch.setattr(slots, "plan_slot", plan_too_early)
    with pytest.raises(ConfigurationError) as caught:
        published.prepare(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
    assert caught.value.code == "shape_in_use"
    assert published.read("select name from analytics.fct") == [("a",)]


def test_views_that_need_other_columns_live_on(published: Any, warehouse: Warehouse) -> None:
    change(
        warehouse,
        "create schema people",
        "create view people.shares as select share * 2 as double from analytics.fct",
        "create view people.counted as select count(*) from analytics.fct",
        "create materialized view people.kept as select share from analytics.fct",
    )
    published.publish(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
    published.publish(published.build({"fct": NEW.replace("2.5", "3.5")}))
    change(warehouse, "refresh materialized view people.kept")
    assert rows(warehouse, "select double from people.shares") == [(7,)]
    assert rows(warehouse, "select * from people.counted") == [(1,)]
    assert rows(warehouse, "select share from people.kept") == [(3.5,)]
    # What they stand on knows the next change too.
    narrower = published.build({"fct": "select 4::bigint as number, 'c'::text as title"})
    failure = pytest.raises(ConfigurationError, match=r"people\.shares .* needs fct\.share")
    with failure:
        published.prepare(narrower, allowed=allowed({"drop": "fct.share"}))
    retitled = published.build({"fct": NEW.replace("title", "caption")})
    published.publish(retitled, allowed=allowed({"rename": "fct.title", "to": "caption"}))
    assert rows(warehouse, "select double from people.shares") == [(5,)]
    assert rows(warehouse, "select caption from analytics.fct") == [("b",)]
    change(warehouse, "drop schema people cascade")
    published.publish(published.build({"fct": NEW.replace("title", "caption").replace("2.5", "9")}))
    assert rows(warehouse, "select relname from pg_class where relnamespace = 'former'::regnamespace "
                "and relkind = 'v'") == []  # fmt: skip


def test_an_analysts_schema_keeps_nobody_from_changing_a_shape(
    published: Any, warehouse: Warehouse
) -> None:
    change(
        warehouse,
        "create schema dev_ana",
        "create view dev_ana.fct as select * from analytics.fct",
        "create view dev_ana.mine as select name, share from dev_ana.fct",
        "create view dev_ana.dim as select * from analytics.dim",
    )
    published.publish(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
    assert rows(warehouse, "select name, share from dev_ana.mine") == [(None, 2.5)]
    assert rows(warehouse, "select to_regclass('dev_ana.dim')::text") == [(None,)]


def test_stand_ins_of_a_changed_model_are_made_again(published: Any, warehouse: Warehouse) -> None:
    change(warehouse, "create schema dev_ana authorization sluice_analyst")
    assert add_stand_ins(warehouse, "dev_ana") == ["dim", "fct"]
    published.publish(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
    assert add_stand_ins(warehouse, "dev_ana") == ["fct"]
    assert rows(warehouse, "select number, title from dev_ana.fct") == [(2, "b")]
    assert add_stand_ins(warehouse, "dev_ana") == []


def test_someone_elses_view_on_an_analysts_view_keeps_a_model_published(
    published: Any, warehouse: Warehouse
) -> None:
    change(
        warehouse,
        "create schema dev_ana",
        "create schema people",
        "create view dev_ana.dim as select * from analytics.dim",
        "create view people.v as select * from dev_ana.dim",
    )
    failure = refusal(published, published.build({"fct": OLD}), {"withdraw": "dim"})
    assert "view people.v" in failure.message
    assert "dev_ana" not in failure.message


def test_versions_from_before_are_cast_and_a_rollback_across_the_change_goes_both_ways(
    published: Any,
) -> None:
    first = published.published()
    for number in (2, 3):
        models = {"fct": NEW.replace("select 2", f"select {number}")}
        published.publish(published.build(models), allowed=allowed(*ENTRIES))
    published.rollback(first)
    assert published.read("select *, pg_typeof(number)::text from analytics.fct") == [
        (1, "a", 1.5, "bigint")
    ]
    latest = published.build({"fct": NEW.replace("select 2", "select 4")})
    published.publish(latest)
    assert published.read("select number, title from analytics.fct") == [(4, "b")]


def test_a_value_without_a_cast_is_found_before_the_gate_and_never_told(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(
        flights.build({"fct": "select 1 as number, 'secret'::text as name, 1 as share"})
    )
    new = flights.build({"fct": "select 2 as number, 7 as name, 1 as share"})
    failure = refusal(flights, new, {"retype": "fct.name", "to": "integer"})
    assert "fct.name (from text to integer)" in failure.message
    assert "secret" not in failure.message
    uncastable = flights.build({"fct": "select 2 as number, now()::date as name, 1 as share"})
    assert (
        "fct.name (from text to date)"
        in refusal(flights, uncastable, {"retype": "fct.name", "to": "date"}).message
    )


def test_a_withdrawn_model_stays_out_on_a_rollback_and_may_come_back(
    published: Any, warehouse: Warehouse
) -> None:
    with_dim = published.published()
    published.publish(published.build({"fct": OLD}), allowed=allowed({"withdraw": "dim"}))
    assert rows(warehouse, "select to_regclass('analytics.dim')::text") == [(None,)]
    published.rollback(with_dim)
    assert rows(warehouse, "select to_regclass('analytics.dim')::text") == [(None,)]
    back = published.build({"fct": OLD, "dim": "select 'other'::text as one"})
    published.publish(back)
    assert published.read("select one from analytics.dim") == [("other",)]


def test_partitions_for_analysts_follow_a_change_of_shape(
    flights: Any, warehouse: Warehouse
) -> None:
    days = ("2013-01-01", "2013-01-02")
    artifacts = {f"flights.weather/{day}": 1 for day in days}

    def models(columns: str) -> dict[str, Any]:
        text = f"select {columns}, d as _partition from unnest(array{list(days)}::text[]) d"
        return {"fct": [Segment(text, days)]}

    flights.publish(flights.build(models("1 as number, 'a'::text as name"), artifacts))
    change(
        warehouse,
        "create schema dev_ana",
        "create view dev_ana.fct as select * from deferred.fct",
    )
    flights.publish(
        flights.build(models("2::bigint as number, 'b'::text as title"), artifacts),
        allowed=allowed(*ENTRIES),
    )
    assert rows(warehouse, "select * from deferred.fct order by 3") == [
        (2, "b", days[0]),
        (2, "b", days[1]),
    ]
    assert rows(warehouse, "select * from dev_ana.fct order by 3") == [
        (None, None, days[0]),
        (None, None, days[1]),
    ]


def test_a_reader_in_a_transaction_keeps_the_old_shape_and_is_named(
    published: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    new = published.build({"fct": NEW})
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("select name from analytics.fct")
        with pytest.raises(DestinationFailure) as caught:
            published.prepare(new, impatient, allowed(*ENTRIES))
        assert (caught.value.code, caught.value.transient) == ("long_reader", True)
        assert f"pid {reader.info.backend_pid}" in caught.value.message
        assert reader.execute("select name from analytics.fct").fetchone() == ("a",)
        assert published.read("select one from analytics.dim") == [(1,)]
    assert published.publish(new, impatient, allowed(*ENTRIES)).outcome == "published"


def test_a_late_publisher_changes_no_shape(published: Any, warehouse: Warehouse) -> None:
    new = published.build({"fct": NEW})
    lease = published.lease
    published.lease = Lease(lease.name, lease.fence - 1)
    with pytest.raises(LeaseLost):
        published.prepare(new, allowed=allowed(*ENTRIES))
    assert published.read("select name, share from analytics.fct") == [("a", 1.5)]
    assert published.read("select one from analytics.dim") == [(1,)]


def test_what_a_change_that_was_given_up_has_left_is_dropped(
    published: Any, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestration.publication import preparation

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "reshape_model", die)
        with pytest.raises(KeyboardInterrupt):
            published.prepare(published.build({"fct": NEW}), allowed=allowed(*ENTRIES))
    left = "select relname from pg_class where relname like 'fct\\_\\_shape%' and relkind = 'v'"
    assert len(rows(warehouse, left)) == 2
    # Another change of shape does not trip over it, nor does a publication without one.
    other = published.build({"fct": "select 3::numeric as number, 'x'::text as name, 1.5 as share",
                             "dim": "select 1 as one"})  # fmt: skip
    entries = ({"retype": "fct.number", "to": "numeric"}, {"retype": "fct.share", "to": "numeric"})
    with monkeypatch.context() as patched:
        patched.setattr(preparation, "reshape_model", die)
        with pytest.raises(KeyboardInterrupt):
            published.prepare(other, allowed=allowed(*entries))
    published.publish(
        published.build({"fct": OLD.replace("1 as", "5 as"), "dim": "select 1 as one"})
    )
    assert rows(warehouse, left) == []
    assert rows(warehouse, "select distinct shape from ops.slot_views") == [(1,)]
    published.publish(other, allowed=allowed(*entries))
    assert published.read("select number from analytics.fct") == [(3,)]
    assert sorted(rows(warehouse, "select model, shape from ops.slot_views where slot = 'a'")) == [
        ("dim", 1),
        ("fct", 2),
    ]
