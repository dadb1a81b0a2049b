"""Partitioned models as dbt itself builds them: names, texts, retries, and dbt outside of Sluice."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from market import Market, Row, day, orders, rebuild_with_dbt

from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Role
from orchestration.warehouse.dbt.build import run_build
from orchestration.warehouse.dbt.profile import write_analyst_profile
from orchestration.warehouse.segments import layout

LONGEST = "m" * 40
UNUSUAL = {
    f"models/marts/{LONGEST}.sql": """
{{ config(partition_by='_partition', lookback=1) }}
-- {{ '{{ not a reference }}' }}
select
    order_id as "Order", 'it''s {% raw %}{{ "x" }} {% endraw %}{# #}' as "select", customer as "naïve",
    jsonb_build_object('cents', cents) as payload,
    cents > lag(cents, 1, 0) over (partition by customer order by order_id) as "Is more",
    _partition
from {{ ref('stg_orders') }}
order by cents desc /* the last line
is a comment */
""",
    "models/marts/eph.sql": """
{{ config(materialized='ephemeral') }}
select * from {{ ref('""" + LONGEST + """') }} where "Order" > 0 -- a comment
""",
    "models/marts/seen.sql": """
{{ config(materialized='view') }}
select "Order" as order_number, "naïve" as who, payload, _partition from {{ ref('eph') }}
""",
    "models/marts/below.sql": """
{{ config(partition_by='_partition') }}
select s.order_number, r.region, s.payload, s._partition
from {{ ref('seen') }} as s left join {{ ref('regions') }} as r on r.city = s.who -- {{ this.name }}
""",
    "models/marts/unusual.yml": """
version: 2
models:
  - name: """ + LONGEST + """
    config: {contract: {enforced: true}}
    columns:
      - {name: Order, data_type: bigint, quote: true}
      - {name: select, data_type: text, quote: true}
      - {name: naïve, data_type: text, quote: true}
      - {name: payload, data_type: jsonb}
      - {name: Is more, data_type: boolean, quote: true}
      - {name: _partition, data_type: text}
  - name: below
    config: {contract: {enforced: true}}
    columns:
      - {name: order_number, data_type: bigint}
      - {name: region, data_type: text}
      - {name: payload, data_type: jsonb}
      - {name: _partition, data_type: text, quote: true}
""",
}  # fmt: skip


def rows_of(market: Market, relation: str, manifest: str) -> list[Row]:
    with market.warehouse.connect(**{"sluice.manifest": manifest}) as owner:
        return owner.execute(f"select t::text from {relation} t order by 1".encode()).fetchall()


def test_unusual_names_and_texts_are_built_night_by_night(market: Market) -> None:
    for name, text in UNUSUAL.items():
        market.write(name, text)
    market.take(range(1, 4))
    market.build("+below")
    market.take([4])
    market.put(orders(2, 5), day(2))
    night = market.build("+below")
    assert night.partitions == {
        LONGEST: (day(2), day(3), day(4)),
        "below": (day(2), day(3), day(4)),
    }
    rebuild_with_dbt(market, night.graph, night.manifest, "rebuilt")
    manifest = night.manifest.manifest_id
    for model in (LONGEST, "seen", "below"):
        stored = rows_of(market, f"store.{night.relations[model]}", manifest)
        assert stored == rows_of(market, f"rebuilt.{model}", manifest)
        assert len(stored) == 14
    with market.warehouse.connect() as owner:
        columns = owner.execute(
            "select columns from ops.relations where relation_name = %s", [night.relations[LONGEST]]
        ).fetchone()
    assert [column["name"] for column in (columns or [[]])[0]] == [
        *("Order", "select", "naïve", "payload", "Is more"),
    ]


def test_a_merge_keeps_what_dbt_gave_to_the_tables(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_SEGMENTS", 2)
    for number in (1, 2, 3):
        market.take([number])
        built = market.build("fct_orders")
    [merge] = built.plan.merges
    assert sorted(merge.partitions or {}) == [day(1), day(2)]
    kept = {held.segment for held in market.visible(built, "fct_orders").values()}
    assert merge.relation_name in kept
    described = [describe(market, name) for name in sorted(kept)]
    assert described[0] == described[1]
    assert described[0]["comments"] == ["One row per order.", "The number on the receipt."]
    assert described[0]["constraints"] == ["CHECK ((euros > ('-1000'::integer)::numeric))"]
    assert described[0]["indexes"] == [(True, False)]
    assert ("order_id", "bigint", True) in described[0]["columns"]
    with market.connect() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"delete from store.{merge.relation_name}".encode())


def describe(market: Market, table: str) -> dict[str, Any]:
    """What a table of the store has, but for names and for the bounds that Sluice adds."""
    questions = {
        "columns": "select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute "
        "where attrelid = {0} and attnum > 0 order by attnum",
        "comments": "select description from pg_description where objoid = {0} order by objsubid",
        "constraints": "select pg_get_constraintdef(oid) from pg_constraint where conrelid = {0} "
        "and contype = 'c' and not starts_with(conname, 'sluice_bounds_')",
        "indexes": "select indisunique, indisprimary from pg_index where indrelid = {0}",
        "owner": "select relowner::regrole::text from pg_class where oid = {0}",
    }
    with market.warehouse.connect() as owner:
        found = {
            name: owner.execute(text.format(f"'store.{table}'::regclass").encode()).fetchall()
            for name, text in questions.items()
        }
    return {
        name: [row[0] if len(row) == 1 else row for row in rows] for name, rows in found.items()
    }


def test_a_model_whose_commit_may_have_been_lost_is_built_again(market: Market) -> None:
    """The connection broke in the commit: nobody knows whether the segment and its views are there."""
    market.take(range(1, 3))
    writer = market.prepare("fct_orders")
    lease = market.lease()
    market.make(writer, lease)
    run_build(market.session(market.manifest()), writer)
    assert market.adopt(writer, lease).orphaned == ()
    relation = writer.plan.relations["fct_orders"]
    assert len(market.rows(f"store.{relation}")) == 6


def test_plain_dbt_builds_the_same_rows_and_never_writes_the_store(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    market.edit(
        "models/marts/fct_orders.sql", "partition_by=", "event_time='placed_on', partition_by="
    )
    market.take(range(1, 5))
    built = market.build("fct_orders", "agg_daily", "mean_week")
    before = everything_stored(market)
    dbt = PlainDbt(market, tmp_path, built.manifest.manifest_id, monkeypatch)
    dbt.run("build")
    for model in ("fct_orders", "agg_daily", "mean_week"):
        manifest = built.manifest.manifest_id
        assert rows_of(market, f"dev_me.{model}", manifest) == rows_of(
            market, f"store.{built.relations[model]}", manifest
        )
    with market.warehouse.connect() as owner:
        kind = owner.execute(
            "select relkind, obj_description(oid, 'pg_class') from pg_class "
            "where oid = 'dev_me.fct_orders'::regclass"
        ).fetchone()
    assert kind == ("r", "One row per order.")
    state = dbt.move_to("prod")
    dbt.run("build", "--select", "agg_daily", "--defer", "--state", str(state))
    assert len(rows_of(market, "dev_me.agg_daily", "")) == len(market.stored(built, "agg_daily"))
    dbt.run("build", "--sample", "{'start': '2024-01-02', 'end': '2024-01-04'}")
    assert len(rows_of(market, "dev_me.fct_orders", "")) == 12
    assert len(rows_of(market, "dev_me.mean_week", "")) == 2
    dbt.run("build", "--empty")
    assert rows_of(market, "dev_me.fct_orders", "") == []
    assert everything_stored(market) == before


class PlainDbt:
    """dbt as an analyst has it, in a schema of the analyst's own."""

    def __init__(
        self, market: Market, folder: Path, manifest: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._market, self._folder = market, folder
        with market.warehouse.connect() as owner:
            owner.execute("create schema dev_me authorization sluice_analyst")
        write_analyst_profile(
            folder / "profiles" / "profiles.yml", market.warehouse.url(Role.ANALYST), "dev_me"
        )
        monkeypatch.setenv("PGOPTIONS", f"-c sluice.manifest={manifest}")

    def run(self, *arguments: str) -> None:
        from dbt.cli.main import dbtRunner

        done = dbtRunner().invoke(
            [
                *arguments,
                *("--project-dir", str(self._market.project_dir), "--quiet"),
                *("--profiles-dir", str(self._folder / "profiles")),
                *("--target-path", str(self._folder / "target")),
                *("--log-path", str(self._folder / "logs"), "--log-level-file", "none"),
            ]
        )
        assert done.success, done.exception or [
            (result.node.name, result.message) for result in done.result.results
        ]

    def move_to(self, schema: str) -> Path:
        """What was built is there now, and dbt's own schema is empty; returns the state to defer to."""
        with self._market.warehouse.connect() as owner:
            owner.execute(f"alter schema dev_me rename to {schema}".encode())
            owner.execute("create schema dev_me authorization sluice_analyst")
        folder = self._folder / "state"
        folder.mkdir()
        text = (self._folder / "target" / "manifest.json").read_text()
        (folder / "manifest.json").write_text(text.replace("dev_me", schema))
        return folder


def everything_stored(market: Market) -> list[Row]:
    """Every relation of the store with its file, and what is written down of them."""
    with market.warehouse.connect() as owner:
        return [
            *owner.execute(
                "select relname, relfilenode, relowner from pg_class "
                "where relnamespace = 'store'::regnamespace order by 1"
            ).fetchall(),
            *owner.execute("select t::text from ops.relations t order by 1").fetchall(),
            *owner.execute("select t::text from ops.view_segments t order by 1").fetchall(),
            *owner.execute("select t::text from ops.segment_partitions t order by 1").fetchall(),
        ]


def test_what_keeps_state_of_its_own_is_refused_by_name(market: Market) -> None:
    market.write(
        "models/marts/grown.sql",
        "{{ config(materialized='incremental', partition_by='_partition') }}\n"
        "select * from {{ ref('stg_orders') }}",
    )
    market.write("models/marts/snake.py", "def model(dbt, session):\n    return dbt.ref('grown')\n")
    market.write(
        "snapshots/kept.sql",
        "{% snapshot kept %}{{ config(unique_key='order_id', strategy='check', check_cols='all') }}"
        "select * from {{ ref('stg_orders') }}{% endsnapshot %}",
    )
    market.write(
        "models/marts/after.sql",
        "{{ config(partition_by='_partition', lookbak=2) }} select * from {{ ref('kept') }}",
    )
    with pytest.raises(ConfigurationError) as raised:
        market.graph("grown", "snake", "after")
    lines = raised.value.message.splitlines()
    assert raised.value.code == "model_refused"
    for name, word in {
        "grown": "'incremental'",
        "snake": "python",
        "kept": "'snapshot'",
        "after": "'lookbak'",
    }.items():
        assert any(name in line and word in line for line in lines), raised.value.message
