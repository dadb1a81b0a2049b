"""What goes wrong while building: the kind of failure, and that no row value is told anywhere."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orchestration.errors import (
    ConfigurationError,
    DestinationFailure,
    LeaseLost,
    TransformFailure,
)
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.build import run_build
from orchestration.warehouse.dbt.plan import BuildPlan
from orchestration.warehouse.dbt.profile import write_analyst_profile
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.store import adopted_relations, sweep_abandoned

SECRET = "eve@example.org"


def poison(shop: Any) -> None:
    """Rows whose values must never be told."""
    with shop.warehouse.connect() as owner:
        owner.execute(
            "insert into staging.shop__orders "
            "values (4, '2024-01-03', %s, 7, 'a_1', 'p', 'r', 's')",
            [SECRET],
        )


def files_below(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("column", "sqlstate"),
    [
        ("cast(customer as integer)", "22P02"),
        ("cast(nullif(customer, 'eve@example.org') as text)", "23502"),
        ("cast(customer as date)", "22007"),
    ],
)
def test_a_failing_model_is_named_and_no_row_value_is_told(
    shop: Any, column: str, sqlstate: str, capfd: pytest.CaptureFixture[str]
) -> None:
    poison(shop)
    with shop.warehouse.connect() as owner:
        owner.execute("delete from staging.shop__orders where customer <> %s", [SECRET])
    shop.write(
        "models/marts/bad.sql",
        f"select {column} as customer from {{{{ ref('stg_shop__orders') }}}}",
    )
    kind = {"22P02": "integer", "22007": "date"}.get(sqlstate, "text")
    shop.write(
        "models/marts/bad.yml",
        "version: 2\nmodels:\n  - name: bad\n    config: {contract: {enforced: true}}\n"
        "    columns:\n"
        f"      - {{name: customer, data_type: {kind}, constraints: [{{type: not_null}}]}}\n",
    )
    graph = shop.graph("bad")
    keys, plan = shop.plan(graph)
    shop.start(plan, shop.lease())
    with pytest.raises(TransformFailure) as raised:
        run_build(shop.session(), Writer(graph, keys, plan))
    failure = raised.value
    assert failure.code == f"sqlstate_{sqlstate.lower()}"
    assert not failure.transient
    assert "bad (models/marts/bad.sql)" in failure.message
    assert failure.message.endswith("correct the model and run again")
    assert failure.__cause__ is None
    told = failure.message + files_below(shop.work_dir) + "".join(capfd.readouterr())
    assert SECRET not in told.replace("nullif(customer, 'eve@example.org')", "")
    assert "DETAIL" not in told


def test_a_contract_that_does_not_hold_is_a_transformation_failure(shop: Any) -> None:
    shop.edit(
        "models/marts/models.yml",
        "name: placed_on, data_type: date",
        "name: placed_on, data_type: text",
    )
    graph = shop.graph("fct_orders")
    keys, plan = shop.plan(graph)
    with pytest.raises(TransformFailure, match="placed_on") as raised:
        run_build(shop.session(), Writer(graph, keys, plan))
    assert raised.value.code == "contract_broken"
    assert "models/marts/fct_orders.sql" in raised.value.message


def test_a_missing_column_is_told_with_the_line_and_the_hint(shop: Any) -> None:
    shop.edit("models/marts/agg_daily.sql", "sum(euros)", "sum(euro)")
    graph = shop.graph("agg_daily")
    keys, plan = shop.plan(graph)
    with pytest.raises(TransformFailure, match=r"column \"euro\" does not exist") as raised:
        run_build(shop.session(), Writer(graph, keys, plan))
    assert raised.value.code == "sqlstate_42703"
    assert "LINE" in raised.value.message


def test_a_broken_project_is_a_configuration_error_that_names_the_file(shop: Any) -> None:
    shop.write("models/marts/bad.sql", "select * from {{ ref('nobody') }}")
    with pytest.raises(ConfigurationError, match=r"models/marts/bad.sql.*nobody|nobody"):
        shop.graph()
    shop.write("models/marts/bad.sql", "select {{ undefined_macro() }} as x")
    with pytest.raises(ConfigurationError, match=r"bad.*undefined_macro|undefined_macro"):
        shop.graph()
    (shop.project_dir / "models/marts/bad.sql").unlink()
    with pytest.raises(ConfigurationError, match="selects no model"):
        shop.graph("tag:nothing")


def test_what_no_key_can_see_is_refused_before_anything_is_built(shop: Any) -> None:
    shop.write("models/marts/a_clock.sql", "select now() as x")
    shop.write("models/marts/b_clock.sql", "select '{{ run_started_at }}' as x")
    shop.write(
        "models/marts/c_query.sql",
        "select {% if execute %}{{ run_query('select 1') }}{% endif %} 1 as x",
    )
    shop.write("models/marts/d_foreign.sql", "select * from staging.shop__orders")
    shop.write(
        "models/marts/e_incremental.sql", "{{ config(materialized='incremental') }} select 1 as x"
    )
    shop.write("models/marts/" + "f" * 41 + ".sql", "select 1 as x")
    shop.write(
        "models/marts/g_hook.sql", "{{ config(post_hook='delete from {{ this }}') }} select 1 as x"
    )
    shop.write("models/marts/h_typo.sql", "{{ config(indexs=[]) }} select 1 as x")
    with pytest.raises(ConfigurationError) as raised:
        shop.graph()
    message = raised.value.message
    for word in (
        "b_clock",
        "run_started_at",
        "run_query",
        "incremental",
        "f" * 41,
        "g_hook",
        "indexs",
    ):
        assert word in message
    for name in ("b_clock", "c_query", "e_incremental", "f" * 41, "g_hook", "h_typo"):
        (shop.project_dir / f"models/marts/{name}.sql").unlink()
    with pytest.raises(ConfigurationError) as raised:
        shop.plan(shop.graph())
    assert "now" in raised.value.message
    assert "staging.shop__orders" in raised.value.message


def test_what_is_stored_is_the_sql_that_the_key_was_computed_from(shop: Any) -> None:
    shop.write("models/marts/named.sql", "select cast('{{ this.identifier }}' as text) as x")
    _, _, plan = shop.build("named")
    with shop.warehouse.connect() as owner:
        row = owner.execute(f"select x from store.{plan.relations['named']}").fetchone()
    assert row == ("named",)


def test_a_warehouse_that_is_away_is_a_transient_failure_of_the_destination(shop: Any) -> None:
    graph = shop.graph("fct_orders")
    keys, plan = shop.plan(graph)
    gone = Warehouse("postgresql://o@/nowhere?host=/tmp/there-is-no-socket-here").url(
        Role.TRANSFORMER
    )
    with pytest.raises(DestinationFailure) as raised:
        run_build(DbtSession(shop.project_dir, shop.work_dir, gone), Writer(graph, keys, plan))
    assert raised.value.transient


def test_a_killed_connection_is_a_transient_failure_of_the_destination(shop: Any) -> None:
    shop.edit(
        "models/marts/agg_daily.sql",
        "from {{ ref('fct_orders') }}",
        "from {{ ref('fct_orders') }} cross join generate_series(1, 30000000) as g",
    )
    graph = shop.graph("agg_daily")
    keys, plan = shop.plan(graph)

    def kill() -> None:
        with shop.warehouse.connect(autocommit=True) as owner:
            owner.execute("set role sluice_transformer")
            for _ in range(200):
                killed = owner.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where "
                    "datname = current_database() and query ilike '%generate_series(1, 3%' "
                    "and pid <> pg_backend_pid()"
                ).fetchall()
                if killed:
                    return
                time.sleep(0.1)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(DestinationFailure) as raised:
            run_build(shop.session(), Writer(graph, keys, plan))
    finally:
        thread.join()
    assert raised.value.transient
    assert "agg_daily" in raised.value.message


def test_the_users_dbt_environment_changes_nothing(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_EMPTY", "1")
    monkeypatch.setenv("DBT_TARGET_PATH", "/nonexistent")
    monkeypatch.setenv("DBT_PROFILES_DIR", "/nonexistent")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=64kB")
    _, _, plan = shop.build("fct_orders")
    with shop.warehouse.connect(Role.GATE) as connection:
        count = connection.execute(
            f"select count(*) from store.{plan.relations['fct_orders']}"
        ).fetchone()
    assert count == (3,)
    assert os.environ["PGOPTIONS"] == "-c work_mem=64kB"
    assert os.environ["DBT_EMPTY"] == "1"


def test_a_builder_that_died_before_adoption_leaves_nothing_behind(shop: Any) -> None:
    graph = shop.graph()
    keys, plan = shop.plan(graph)
    lease = shop.lease(seconds=1)
    shop.start(plan, lease)
    run_build(shop.session(), Writer(graph, keys, plan))
    time.sleep(1.1)
    with pytest.raises(LeaseLost):
        shop.adopt(plan, lease)
    with shop.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
        assert sorted(sweep_abandoned(connection)) == sorted(plan.relations.values())
        assert sweep_abandoned(connection) == []
        assert remaining(connection) == []
    _, _, again = shop.build()
    assert len(again.build) == len(plan.build)
    assert set(again.relations.values()).isdisjoint(plan.relations.values())


def test_a_relation_given_up_by_a_sweep_is_never_adopted(shop: Any) -> None:
    graph = shop.graph("fct_orders")
    keys, plan = shop.plan(graph)
    lease = shop.lease()
    shop.start(plan, lease)
    run_build(shop.session(), Writer(graph, keys, plan))
    with shop.warehouse.connect() as owner:
        owner.execute("update ops.relations set state = 'abandoned'")
    with pytest.raises(TransformFailure) as raised:
        shop.adopt(plan, lease)
    assert raised.value.transient
    with shop.warehouse.connect(Role.TRANSFORMER) as connection:
        assert adopted_relations(connection, [r.store_key for r in plan.build]) == {}


def test_two_builders_of_one_key_both_succeed(shop: Any) -> None:
    graph = shop.graph()
    keys, first = shop.plan(graph)
    _, second = shop.plan(graph)
    leases = shop.lease("build/one"), shop.lease("build/two")
    for plan, lease in zip((first, second), leases, strict=True):
        shop.start(plan, lease)
        run_build(shop.session(), Writer(graph, keys, plan))
    assert shop.adopt(first, leases[0]).adopted == dict(first.relations)
    lost = shop.adopt(second, leases[1])
    assert lost.orphaned == ("rpt_days",)
    assert lost.adopted == {
        name: relation for name, relation in first.relations.items() if name != "rpt_days"
    }
    _, again = shop.plan(graph)
    assert again.build == ()
    with shop.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        runner.execute("select ops.release_lease(%s, %s)", [leases[1].name, leases[1].fence])
    with shop.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
        assert len(sweep_abandoned(connection)) == len(second.build)


def test_two_adoptions_at_the_same_moment_both_succeed(shop: Any) -> None:
    graph = shop.graph("fct_orders", "dim_customer")
    keys, _ = shop.plan(graph)
    plans = [shop.plan(graph)[1] for _ in range(2)]
    leases = [shop.lease("build/one"), shop.lease("build/two")]
    for plan, lease in zip(plans, leases, strict=True):
        shop.start(plan, lease)
        run_build(shop.session(), Writer(graph, keys, plan))
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(shop.adopt, plans, leases)
    assert one.adopted == two.adopted
    assert set(one.replaced) | set(two.replaced) == set(one.adopted)
    assert not set(one.replaced) & set(two.replaced)


def test_adopting_again_after_a_lost_answer_changes_nothing(shop: Any) -> None:
    graph = shop.graph("fct_orders")
    keys, plan = shop.plan(graph)
    lease = shop.lease()
    shop.start(plan, lease)
    run_build(shop.session(), Writer(graph, keys, plan))
    assert shop.adopt(plan, lease) == shop.adopt(plan, lease)


def test_plain_dbt_build_works_for_an_analyst_without_exports(shop: Any) -> None:
    with shop.warehouse.connect(autocommit=True) as owner:
        owner.execute("create schema dev_ann authorization sluice_analyst")
    path = shop.project_dir / "profiles.yml"
    write_analyst_profile(path, shop.warehouse.url(Role.ANALYST), "dev_ann")
    assert path.stat().st_mode & 0o777 == 0o600
    publish(shop)
    done = subprocess.run(
        [Path(sys.executable).parent / "dbt", "build"],
        cwd=shop.project_dir,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    with shop.warehouse.connect(Role.ANALYST) as connection:
        assert connection.execute("select count(*) from dev_ann.fct_orders").fetchone() == (3,)


def publish(shop: Any) -> None:
    with shop.warehouse.connect() as owner:
        owner.execute(
            "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id) "
            "values ('v', 'shop', %s, 'r', 'c')",
            [shop.manifest],
        )
        owner.execute(
            "with p as (insert into ops.publications (pipeline, version_id, kind, slot) "
            "values ('shop', 'v', 'publish', 'a') returning publication_id) "
            "insert into ops.publication_pointer "
            "(pipeline, active_slot, version_id, publication_id) "
            "select 'shop', 'a', 'v', publication_id from p"
        )


def remaining(connection: psycopg.Connection) -> list[Any]:
    return connection.execute(
        "select relname from pg_class c join pg_namespace n on n.oid = relnamespace "
        "where nspname = 'store' and relkind in ('r', 'v')"
    ).fetchall()


def test_an_empty_plan_starts_no_dbt(shop: Any) -> None:
    done = run_build(shop.session(), Writer(shop.graph("fct_orders"), {}, BuildPlan((), ())))
    assert done.built == ()
