"""Messages become bounded batches, the oldest first, in which every partition is asked for once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestration.model import TriggerKind
from orchestration.pipelines.webhook import WebhookPolicy
from orchestration.triggers.batches import Message, compose

DAYS = [f"2013-02-{day:02}" for day in range(1, 11)]


def said(number: int, *days: str, corrected: bool = False, age_s: float = 0) -> Message:
    event: dict[str, Any] = {
        "type": "partitions.corrected" if corrected else "partitions.ready",
        "resource": "flights.flights",
        "windows": list(days),
    }
    return Message(number, "flights", f"msg_{number}", event, age_s)


def policy(**words: int) -> WebhookPolicy:
    return WebhookPolicy(source="flights", **words)


def test_a_partition_that_several_name_is_asked_for_once_and_anew_if_one_corrects_it() -> None:
    batch = compose([said(1, *DAYS[:2]), said(2, DAYS[1], corrected=True)], policy())
    assert batch.windows == {
        ("flights.flights", DAYS[0]): False,
        ("flights.flights", DAYS[1]): True,
    }
    request = batch.request("flights")
    assert (request.trigger_kind, request.trigger_key) == (TriggerKind.MICRO_BATCH, "inbox/1..2")
    assert request.correlation_id == "flights/msg_1"


def test_a_message_alone_gives_the_run_its_name() -> None:
    request = compose([said(1, DAYS[0])], policy()).request("flights")
    assert (request.trigger_kind, request.trigger_key) == (TriggerKind.WEBHOOK, "flights/msg_1")


def test_a_batch_waits_for_others_until_it_is_full_or_old() -> None:
    waits = policy(max_events=3, max_partitions=5, max_wait_seconds=60)
    assert not compose([], waits).is_due(waits)
    assert not compose([said(1, DAYS[0], age_s=59)], waits).is_due(waits)
    assert compose([said(1, DAYS[0], age_s=60)], waits).is_due(waits)
    assert compose([said(n, DAYS[0]) for n in range(3)], waits).is_due(waits)
    assert compose([said(1, *DAYS[:5])], waits).is_due(waits)
    assert compose([said(1, *DAYS[:3]), said(2, *DAYS[3:6])], waits).is_due(waits)


def test_a_message_with_more_than_a_run_may_ask_for_goes_alone() -> None:
    small = policy(max_partitions=2)
    batch = compose([said(1, *DAYS), said(2, DAYS[0])], small)
    assert [message.inbox_id for message in batch.messages] == [1]


@given(
    st.lists(st.lists(st.sampled_from(DAYS), min_size=1, max_size=4), max_size=12),
    st.integers(1, 5),
    st.integers(4, 10),
)
def test_taking_batches_until_none_is_left_takes_every_message_once(
    days: list[list[str]], events: int, partitions: int
) -> None:
    bounds = policy(max_events=events, max_partitions=partitions)
    waiting = [said(number, *named) for number, named in enumerate(days)]
    taken: list[Message] = []
    while waiting:
        batch = compose(waiting, bounds)
        assert 1 <= len(batch.messages) <= events
        assert len(batch.windows) <= partitions
        taken += batch.messages
        waiting = waiting[len(batch.messages) :]
    assert [message.inbox_id for message in taken] == list(range(len(days)))
