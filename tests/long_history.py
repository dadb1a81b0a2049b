"""Gives the flights project a long history by hand: days that were never fetched, in one segment."""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg.types.json import Jsonb

from orchestration.identity import VersionId, digest
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.slices import read_slices
from orchestration.warehouse.segments.texts import segment_views

# For each model, its columns as they are `{back}` days earlier; all others stay the same.
MOVED = {
    "fct_flights": {
        "flight_key": "md5(flight_key || {back})",
        "flight_date": "flight_date - {back}",
        "scheduled_departure_at": "scheduled_departure_at - {back} * interval '1 day'",
    },
    "fct_weather_hourly": {"observed_at": "observed_at - {back} * interval '1 day'"},
    "agg_carrier_daily": {"flight_date": "flight_date - {back}"},
}
PARTITION = "to_char(to_date(_partition, 'YYYY-MM-DD') - {back}, 'YYYY-MM-DD')"


class LongHistory:
    """Versions of the flights pipeline that show more than it was built from."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.owner = warehouse.connect(autocommit=True)
        self.builder = warehouse.connect(Role.TRANSFORMER, autocommit=True)
        self.history: dict[str, Piece] = {}

    def close(self) -> None:
        self.owner.close()
        self.builder.close()

    def make(self, version: str, repeats: int) -> None:
        """A segment for each partitioned model: its days, `repeats` times over, further back."""
        for model, relation in self.relations(version).items():
            if model in MOVED:
                backs = [2 * (number + 1) for number in range(repeats)]
                self.history[model] = self.add_segment(model, relation, "", backs)

    def add_segment(
        self, model: str, relation: str, condition: str, backs: Sequence[int], **instead: str
    ) -> Piece:
        """A segment with the rows of the relation, once for each number of days further back.

        `instead` has expressions for columns that are not moved but made up.
        """
        slices = read_slices(self.owner, relation, self.columns(relation))
        assert slices is not None
        name = f"{model}__{digest([model, condition, list(backs), instead])[:12]}"
        moved = MOVED[model] | {"_partition": PARTITION} | instead
        columns = ", ".join(f"{moved.get(c, c)} as {c}" for c in slices.columns)
        self.builder.execute(
            f"create table store.{name} (like store.{slices.pieces[0].segment} including all)".encode()
        )
        for (constraint,) in self.builder.execute(
            "select conname from pg_constraint where conrelid = to_regclass(%s) and contype = 'c'",
            [f"store.{name}"],
        ).fetchall():
            self.builder.execute(f"alter table store.{name} drop constraint {constraint}".encode())
        for back in backs:
            text = f"select {columns} from store.{relation} {condition}".replace(
                "{back}", str(back)
            )
            self.builder.execute(f"insert into store.{name} {text}".encode())
        self.builder.execute(f"analyze store.{name}".encode())
        self.builder.execute("select ops.seal_relation(%s)", [name])
        self._adopt(name, model, "table", self.columns(relation))
        self.owner.execute(
            f"insert into ops.segment_partitions select %s, _partition, "
            f"encode(sha256((_partition || %s)::bytea), 'hex'), count(*) from store.{name} "
            "group by _partition".encode(),
            [name, name],
        )
        shown = self.owner.execute(
            "select array_agg(partition order by 1), sum(row_count)::int "
            "from ops.segment_partitions where relation_name = %s",
            [name],
        ).fetchone()
        assert shown is not None
        return Piece(name, tuple(shown[0]), rows=shown[1])

    def version(self, like: str, more: Mapping[str, Sequence[Piece]]) -> VersionId:
        """A version like another one, whose models show these segments too."""
        made = VersionId(
            f"v_{digest([like, {m: [p.segment for p in s] for m, s in more.items()}])[:16]}"
        )
        self.owner.execute(
            "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id) "
            "select %s, pipeline, manifest_id, run_id, code_id from ops.versions "
            "where version_id = %s",
            [made, like],
        )
        for model, relation in self.relations(like).items():
            shown = self._view(model, relation, more[model]) if model in more else relation
            self.owner.execute(
                "insert into ops.version_models select %s, model, %s, "
                "case when relation_name = %s then content_key else %s end, published, parents, "
                "resources from ops.version_models where version_id = %s and model = %s",
                [made, shown, shown, digest(shown), like, model],
            )
        return made

    def relations(self, version: str) -> dict[str, str]:
        rows = self.owner.execute(
            "select model, relation_name from ops.version_models where version_id = %s", [version]
        ).fetchall()
        return dict(rows)

    def columns(self, relation: str) -> list[dict[str, str]]:
        row = self.owner.execute(
            "select columns from ops.relations where relation_name = %s", [relation]
        ).fetchone()
        assert row is not None
        return list(row[0])

    def _view(self, model: str, relation: str, more: Sequence[Piece]) -> str:
        columns = self.columns(relation)
        slices = read_slices(self.owner, relation, columns)
        assert slices is not None
        pieces = [*slices.pieces, *more]
        name = f"{model}__{digest([piece.segment for piece in pieces])[:12]}"
        for text in segment_views(name, slices.columns, pieces):
            self.builder.execute(text.encode())
        for view in (name, f"{name}__live"):
            self.builder.execute("select ops.seal_relation(%s)", [view])
        self._adopt(name, model, "view", columns)
        for piece in pieces:
            self.owner.execute(
                "insert into ops.view_segments values (%s, %s, %s)",
                [name, piece.segment, list(piece.hidden)],
            )
        return name

    def _adopt(self, name: str, model: str, kind: str, columns: list[dict[str, str]]) -> None:
        self.owner.execute(
            "insert into ops.relations (relation_name, model, content_key, kind, run_id, "
            "lease_name, fence, state, row_count, columns) "
            "values (%s, %s, %s, %s, 'r', 'l', 1, 'adopted', 0, %s)",
            [name, model, digest(name), kind, Jsonb(columns)],
        )


def scans(connection: psycopg.Connection, query: str, segments: Sequence[str]) -> dict[str, int]:
    """What a query does to these tables: kind of scan → rows that it looked at, run for real."""
    row = connection.execute(
        f"explain (analyze, timing off, format json) {query}".encode()
    ).fetchone()
    assert row is not None
    found: dict[str, int] = {}
    pending = [row[0][0]["Plan"]]
    while pending:
        node = pending.pop()
        pending += node.get("Plans", [])
        if node.get("Relation Name") in segments and node["Actual Loops"]:
            read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            kind = node["Node Type"]
            found[kind] = found.get(kind, 0) + round(read * node["Actual Loops"])
    return found
