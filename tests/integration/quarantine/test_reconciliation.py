"""Whatever is fetched and decided in whatever order, and by how many at once: every count agrees."""

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from quarantine_bench import Bench

from ingestion.demo_api.server import DemoServer
from ingestion.partitions import Partition
from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

CARRIERS = ("AA", "DL", "UA")
SENDS: dict[str, Any] = {"good": "in order", "bad": "", "worse": 5}
CORRECTIONS: dict[str, dict[str, Any] | None] = {
    "as it is": None,
    "good": {"name": "by hand"},
    "better": {"name": "by hand, again"},
    "bad": {"name": ""},
    "taken": {"carrier": "WN", "name": "by hand"},
}
RECORDS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(CARRIERS), st.sampled_from(sorted(SENDS))),
    st.tuples(st.just("fetch"), st.booleans()),
    st.tuples(st.just("request"), RECORDS, st.sampled_from(sorted(CORRECTIONS))),
    st.tuples(st.just("load"), st.none() | st.booleans()),
    st.tuples(st.just("discard"), RECORDS),
    st.tuples(st.just("judge"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("release"), st.integers(0, 5)),
)


@pytest.fixture(scope="module")
def new_bench(
    server: EmbeddedServer,
    template: str,
    demo_server: DemoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], Bench]]:
    databases: list[str] = []

    def administer(statement: str, *names: str) -> None:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            identifiers = [sql.Identifier(name) for name in names]
            connection.execute(sql.SQL(statement).format(*identifiers))  # type: ignore[arg-type]

    def make() -> Bench:
        while databases:
            administer("drop database {} with (force)", databases.pop())
        databases.append(f"test_{secrets.token_hex(6)}")
        administer(
            "create database {} template {} owner sluice_owner strategy file_copy",
            databases[-1],
            template,
        )
        demo_server.clear()
        home: Path = tmp_path_factory.mktemp("home")
        return Bench(Warehouse(server.url(database=databases[-1])), demo_server, home)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_FLIGHTS_API_URL", demo_server.url)
        patch.setenv("SLUICE_FLIGHTS_API_TOKEN", demo_server.token)
        patch.setenv("SLUICE_PSEUDONYM_KEY", "a key for tests")
        yield make
    while databases:
        administer("drop database {} with (force)", databases.pop())
    demo_server.clear()


@dataclass
class Play:
    """Takes steps on one partition; what is refused must have changed nothing."""

    bench: Bench
    discarded: set[int]

    def take(self, step: Sequence[Any]) -> None:
        name, *rest = step
        before = self.bench.records()
        try:
            getattr(self, name)(*rest)
        except ConfigurationError:
            assert self.bench.records() == before
        self.check()

    def send(self, carrier: str, what: str) -> None:
        self.bench.send(**{carrier: SENDS[what]})

    def fetch(self, accepted: bool) -> None:
        self.bench.fetch(accepted=accepted)

    def request(self, position: int, correction: str) -> None:
        if number := self.record(position):
            given = CORRECTIONS[correction]
            self.bench.request(number, corrections={} if given is None else {number: given})

    def load(self, accepted: bool | None) -> None:
        """Loads what was asked for last, even if it was overtaken; None leaves it unjudged."""
        rows = self.bench.query(
            "select partition from quarantine.retries order by retry_id desc limit 1"
        )
        for (partition,) in rows:
            self.bench.load(Partition.parse(partition))
            self.judge_named(partition, accepted)

    def discard(self, position: int) -> None:
        if number := self.record(position):
            self.bench.discard(number)
            self.discarded.add(number)

    def judge(self, position: int, accepted: bool) -> None:
        if partition := self.partition(position):
            self.judge_named(partition, accepted)

    def release(self, position: int) -> None:
        if partition := self.partition(position):
            self.bench.release(self.bench.artifact(Partition.parse(partition)))

    def judge_named(self, partition: str, accepted: bool | None) -> None:
        loaded = self.bench.query(
            f"select from ops.artifacts where partition = '{partition}' and state = 'adopted'"
        )
        if loaded and accepted is not None:
            self.bench.judge(self.bench.artifact(Partition.parse(partition)), accepted=accepted)

    def record(self, position: int) -> int | None:
        numbers = sorted(self.bench.records())
        return numbers[position % len(numbers)] if numbers else None

    def partition(self, position: int) -> str | None:
        rows = self.bench.query(
            "select partition from ops.artifacts where state = 'adopted' order by revision"
        )
        return rows[position % len(rows)][0] if rows else None

    def check(self) -> None:
        """Counts agree, what is decided stays, and readers get exactly what was accepted or retried."""
        self.bench.assert_reconciled()
        records = self.bench.records()
        assert {number for number, (decision, _) in records.items() if decision == "discarded"} == (
            self.discarded
        )
        rows = self.bench.query(
            "select r.record_id, r.decision, r.source_ref, u.artifact_id from quarantine.records r "
            "join (select artifact_id, coalesce(origin_id, artifact_id) as origin "
            "from ops.artifacts where acceptance = 'accepted' "
            "order by source_revision desc, revision desc limit 1) u on u.origin = r.artifact_id"
        )
        refs = list(self.bench.in_use())
        for number, decision, source_ref, _ in rows:
            has = [
                ref for ref in refs if ref == source_ref or ref.endswith(f";manual=record-{number}")
            ]
            assert len(has) == (1 if decision == "retried" else 0), (number, decision, has)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(CARRIERS), min_size=1, unique=True),
    st.lists(STEPS, min_size=4, max_size=14),
)
def test_counts_agree_after_any_sequence_of_fetches_and_decisions(
    new_bench: Callable[[], Bench], spoiled: list[str], steps: list[tuple[Any, ...]]
) -> None:
    play = Play(new_bench(), set())
    play.bench.send(**dict.fromkeys(spoiled, ""))
    for step in [("fetch", True), *steps]:
        play.take(step)


@pytest.mark.slow
def test_of_reviewers_who_decide_at_once_one_decides_and_every_count_agrees(bench: Bench) -> None:
    bench.send(AA="", DL="", UA="", WN="")
    bench.fetch()
    numbers = sorted(bench.records())
    start = threading.Barrier(8)
    refused: list[str] = []

    def decide(act: Callable[[], object]) -> None:
        start.wait()
        try:
            act()
        except ConfigurationError as error:
            refused.append(error.message)

    def correct(name: str) -> Callable[[], object]:
        given = {number: {"name": name} for number in numbers}
        return lambda: bench.request(*numbers, corrections=given, reason=name)

    decisions: list[Callable[[], object]] = [
        *(lambda reason=reason: bench.discard(*numbers[:2], reason=reason) for reason in "abc"),
        *(correct(name) for name in ("one", "two", "three")),
        lambda: bench.discard(numbers[3], reason="d"),
        lambda: bench.discard(numbers[0], reason="e"),
    ]
    threads = [threading.Thread(target=decide, args=[act]) for act in decisions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.assert_reconciled()
    decided = {number: decision for number, (decision, _) in bench.records().items()}
    asked = bench.query("select count(*) from quarantine.retries where status = 'open'")[0][0]
    # Either a retry was first, and then nothing of it is discarded, or a discard was, for ever.
    assert asked <= 1
    assert ("discarded" in decided.values()) != bool(asked)
    reasons = bench.query(
        "select r.record_id, count(*) from quarantine.decisions d join quarantine.records r "
        "using (record_id) where d.event = 'discarded' group by 1"
    )
    assert all(count == 1 for _, count in reasons)
    assert refused
    if asked:
        [(partition,)] = bench.query(
            "select partition from quarantine.retries where status = 'open'"
        )
        bench.judge(bench.loaded(Partition.parse(partition)), accepted=True)
        assert set(bench.in_use().values()) & {"one", "two", "three"}
        bench.assert_reconciled()
