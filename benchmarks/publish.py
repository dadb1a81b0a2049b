"""Publishing under readers that never pause: what they notice, and what it costs beside one UPDATE.

    make benchmark-publish
    python benchmarks/publish.py [--views 20] [--publications 60] [--seconds 15] [--url URL] [--json]

Twenty views, eight readers in processes of their own that join random pairs: plainly, with generic
plans, by cursor, in repeatable read, through a PL/pgSQL function, through somebody's view. Beside them
somebody refreshes a materialized view, and a transaction reads a pinned version by cursor from the
beginning to the end.

1. readers alone; then `publications` versions, published by the same code as in the pipeline, and
   between them one-row UPDATEs; then the same readers on plain views that a transaction of CREATE OR
   REPLACE VIEW tries to replace as often as it can.
2. a reader that stays in a transaction on analytics stops the next publication, is named, and changes
   nothing.
3. without the grace period: readers get clean errors, and never wrong rows.

Uses a server made for the occasion, fsync on, or an empty database by URL. Mixed reads, errors in 1
and publications that do not come through end with exit code 1; times are figures, not a verdict.
"""

import argparse
import json
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from readers import Readers, Seen
from stored_versions import StoredVersions, warehouse_for

from orchestration.errors import DestinationFailure
from orchestration.identity import VersionId
from orchestration.publication.grace import Patience
from orchestration.publication.pins import pin_version
from orchestration.publication.versions import get_version
from orchestration.warehouse.connections import Role, Warehouse

KINDS = (
    *("plain", "plain", "plain", "generic plan", "repeatable read", "cursor", "PL/pgSQL"),
    "user's view",
)
HASTY_KINDS = ("plain", "generic plan", "cursor", "old snapshot", "old snapshot", "old snapshot")
ALONE, PUBLISHING, REPLACING = 1, 2, 3
WANTED_RATIO = 3.0


@dataclass(frozen=True)
class Figures:
    """Milliseconds, and counts."""

    publications: int
    starved: int
    reads: int
    mixed: int
    errors: dict[str, int]
    refreshes: int
    update_p50: float
    flip_p50: float
    flip_ratio: float
    prepare_p50: float
    prepare_p99: float
    alone_p50: float
    alone_p99: float
    publishing_p50: float
    publishing_p99: float
    replaced: int
    refused: int
    replacing_errors: dict[str, int]
    replacing_p99: float


class Bench:
    """The warehouse of one run: versions to publish, and what people made of what is published."""

    def __init__(self, warehouse: Warehouse, views: int, publications: int) -> None:
        self.warehouse = warehouse
        self.versions = StoredVersions(warehouse)
        self.models = [f"model_{number:02}" for number in range(views)]
        self.built = [self._build(number) for number in range(publications + 1)]
        self.publish(self.built[0])
        with warehouse.connect(autocommit=True) as owner:
            owner.execute(_people(*self.models[:2]).encode())
            for model in self.models:
                owner.execute(
                    f"create view beside.{model} as {self._plain(owner, model, 0)}".encode()
                )
            owner.execute("grant usage on schema people, beside to sluice_analyst")
            owner.execute("grant select on all tables in schema people, beside to sluice_analyst")

    def publish(self, version: VersionId, patience: Patience | None = None) -> tuple[float, float]:
        """(time to prepare, time that the pointer was locked), in milliseconds."""
        began = time.perf_counter()
        self.versions.prepare(version, patience)
        prepared = (time.perf_counter() - began) * 1000
        publication = self.versions.flip(version)
        assert publication.outcome == "published"
        return prepared, publication.flip_s * 1000

    def replace_all(self, number: int) -> bool:
        """One transaction of CREATE OR REPLACE VIEW; False when it had to give up."""
        try:
            with self.warehouse.connect() as owner:
                owner.execute("set local lock_timeout = '100ms'")
                for model in self.models:
                    text = self._plain(owner, model, number)
                    owner.execute(f"create or replace view beside.{model} as {text}".encode())
        except psycopg.errors.OperationalError:
            return False
        return True

    def next_version(self) -> VersionId:
        self.built.append(self._build(len(self.built)))
        return self.built[-1]

    def _build(self, number: int) -> VersionId:
        text = f"select {number} as version, i as id, md5(i::text) as text from generate_series(1, 200) i"
        return self.versions.build(dict.fromkeys(self.models, text))

    def _plain(self, owner: psycopg.Connection, model: str, number: int) -> str:
        row = owner.execute(
            "select relation_name from ops.version_models where version_id = %s and model = %s",
            [self.built[number % len(self.built)], model],
        ).fetchone()
        assert row is not None
        return f"select version, id, text from store.{row[0]}"


def _people(one: str, other: str) -> str:
    return f"""
create schema people;
create schema beside;
create view people.joined as
    select a.version as one, b.version as other, id
    from analytics.{one} a join analytics.{other} b using (id);
create materialized view people.kept as
    select a.version as one, b.version as other from analytics.{one} a, analytics.{other} b limit 1000;
create function people.versions_of_two() returns int[] language plpgsql stable as $$
declare
    one int; other int;
begin
    select version into one from analytics.{one} where id = 7;
    select version into other from analytics.{other} where id = 9;
    return array[one, other];
end $$;
"""


class Bystanders:
    """A transaction that reads a pinned version all the time, and somebody who refreshes."""

    def __init__(self, bench: Bench) -> None:
        self._warehouse = bench.warehouse
        self.refreshes = 0
        self.mixed = 0
        self._over = threading.Event()
        with bench.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            version = get_version(runner, bench.built[0])
        pin_version(bench.warehouse, version, reason="benchmark", lease=bench.versions.lease)
        self.pinned = bench.warehouse.connect(Role.ANALYST)
        self.cursor = self.pinned.cursor(name="all_day")
        self.cursor.execute(f"select version from {version.version_id}.{bench.models[0]}".encode())
        assert self.cursor.fetchmany(10) == [(0,)] * 10
        self._thread = threading.Thread(target=self._refresh)
        self._thread.start()

    def _refresh(self) -> None:
        with self._warehouse.connect(autocommit=True) as owner:
            while not self._over.wait(0.2):
                owner.execute("refresh materialized view people.kept")
                seen = owner.execute("select distinct one, other from people.kept").fetchall()
                self.mixed += len(seen) != 1 or seen[0][0] != seen[0][1]
                self.refreshes += 1

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        assert self.cursor.fetchmany(10) == [(0,)] * 10, "the pinned version changed"
        self.pinned.close()


def measure(bench: Bench, seconds: float) -> Figures:
    readers = Readers(bench.warehouse, KINDS, bench.models)
    bystanders = Bystanders(bench)
    readers.enter(ALONE)
    time.sleep(seconds)
    prepares, flips, updates = [], [], []
    starved = 0
    readers.enter(PUBLISHING)
    with bench.warehouse.connect(autocommit=True) as beside:
        beside.execute("create table if not exists people.one_row as select 1 as id, 0 as n")
        for version in bench.built[1:]:
            updates += [_update(beside) for _ in range(3)]
            try:
                prepared, flipped = bench.publish(version)
            except DestinationFailure as failure:
                starved += 1
                print(f"did not come through: {failure.message}")
                continue
            prepares.append(prepared)
            flips.append(flipped)
    bystanders.stop()
    readers.enter(REPLACING, "beside")
    until = time.monotonic() + seconds
    tries: list[bool] = []
    while time.monotonic() < until:
        tries.append(bench.replace_all(len(tries)))
    met = readers.stop()
    return _figures(met, bystanders, prepares, flips, updates, starved, tries)


def _figures(
    met: dict[int, Seen],
    bystanders: Bystanders,
    prepares: Sequence[float],
    flips: Sequence[float],
    updates: Sequence[float],
    starved: int,
    tries: Sequence[bool],
) -> Figures:
    alone, publishing, replacing = met[ALONE], met[PUBLISHING], met[REPLACING]
    update, flip = statistics.median(updates), statistics.median(flips)
    return Figures(
        publications=len(flips),
        starved=starved,
        reads=len(alone.times) + len(publishing.times),
        mixed=alone.mixed + publishing.mixed + bystanders.mixed,
        errors=dict(alone.errors + publishing.errors),
        refreshes=bystanders.refreshes,
        update_p50=update,
        flip_p50=flip,
        flip_ratio=flip / update,
        prepare_p50=_share(prepares, 0.5),
        prepare_p99=_share(prepares, 0.99),
        alone_p50=_share(alone.times, 0.5),
        alone_p99=_share(alone.times, 0.99),
        publishing_p50=_share(publishing.times, 0.5),
        publishing_p99=_share(publishing.times, 0.99),
        replaced=sum(tries),
        refused=len(tries) - sum(tries),
        replacing_errors=dict(replacing.errors),
        replacing_p99=_share(replacing.times, 0.99),
    )


def stay_in_a_transaction(bench: Bench, wait_s: float = 1.0) -> dict[str, Any]:
    """A reader that does not leave: the next publication but one waits, names it and stops."""
    bench.publish(bench.next_version())
    shown = bench.next_version()
    bench.publish(shown)
    version = bench.next_version()
    with bench.warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set application_name = 'a notebook'")
        reader.execute(f"select count(*) from analytics.{bench.models[0]}".encode())
        began = time.perf_counter()
        try:
            bench.publish(version, Patience(wait_s=wait_s))
        except DestinationFailure as failure:
            waited = time.perf_counter() - began
            named = f"pid {reader.info.backend_pid}" in failure.message
            stopped = (failure.code, failure.transient) == ("long_reader", True)
        else:
            waited, named, stopped = 0.0, False, False
        with bench.warehouse.connect(Role.ANALYST, autocommit=True) as other:
            row = other.execute(
                f"select distinct version from analytics.{bench.models[0]}".encode()
            ).fetchone()
        untouched = row == (bench.built.index(shown),)
    bench.publish(version)
    return {"waited_s": waited, "stopped": stopped, "named": named, "untouched": untouched}


def without_grace(bench: Bench, publications: int) -> dict[str, Any]:
    """The grace period switched off, as only tests can: the second line holds by itself."""
    readers = Readers(bench.warehouse, HASTY_KINDS, bench.models)
    readers.enter(PUBLISHING)
    for number in range(publications):
        bench.publish(bench.built[number % len(bench.built)], Patience(honour_grace=False))
    seen = readers.stop()[PUBLISHING]
    return {
        "publications": publications,
        "reads": len(seen.times),
        "mixed": seen.mixed,
        "errors": dict(seen.errors),
        "clean": all(error.startswith("40001") for error in seen.errors),
    }


def _update(connection: psycopg.Connection) -> float:
    began = time.perf_counter()
    connection.execute("update people.one_row set n = n + 1 where id = 1")
    return (time.perf_counter() - began) * 1000


def _share(times: Sequence[float], share: float) -> float:
    ordered = sorted(times) or [float("nan")]
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report(figures: Figures, staying: dict[str, Any], hasty: dict[str, Any]) -> None:
    f = figures
    print(f"publications          {f.publications} of {f.publications + f.starved}")
    print(f"reads                 {f.reads}, mixed {f.mixed}, errors {f.errors or 'none'}")
    print(f"refreshes             {f.refreshes} of a materialized view")
    print(f"one-row UPDATE        p50 {f.update_p50:.2f} ms")
    print(
        f"flip                  p50 {f.flip_p50:.2f} ms, {f.flip_ratio:.2f} times (at most {WANTED_RATIO})"
    )
    print(f"prepare               p50 {f.prepare_p50:.0f} ms, p99 {f.prepare_p99:.0f} ms")
    print(f"readers alone         p50 {f.alone_p50:.2f} ms, p99 {f.alone_p99:.2f} ms")
    print(
        f"while publishing      p50 {f.publishing_p50:.2f} ms, p99 {f.publishing_p99:.2f} ms, "
        f"{f.publishing_p99 / f.alone_p99:.2f} times"
    )
    print(
        f"replacing the views   {f.replaced} of {f.replaced + f.refused} transactions, readers' p99 "
        f"{f.replacing_p99:.2f} ms, errors {f.replacing_errors or 'none'}"
    )
    print(f"a reader that stays   {staying}")
    print(f"without grace         {hasty}")


def failed(figures: Figures, staying: dict[str, Any], hasty: dict[str, Any]) -> bool:
    right = staying["stopped"] and staying["named"] and staying["untouched"]
    return bool(
        figures.mixed or figures.errors or figures.starved or not right
        or hasty["mixed"] or not hasty["clean"]
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--views", type=int, default=20)
    parser.add_argument("--publications", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--url", help="an empty database, as its owner")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with warehouse_for(options.url) as warehouse:
        bench = Bench(warehouse, options.views, options.publications)
        figures = measure(bench, options.seconds)
        staying = stay_in_a_transaction(bench)
        hasty = without_grace(bench, min(30, options.publications))
    if options.json:
        print(
            json.dumps({"readers": asdict(figures), "staying": staying, "hasty": hasty}, indent=2)
        )
    else:
        report(figures, staying, hasty)
    return int(failed(figures, staying, hasty))


if __name__ == "__main__":
    raise SystemExit(main())
