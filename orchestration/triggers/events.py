"""What a message may say: that partitions of a resource are ready, or were corrected. Nothing else.

A message is judged by what the pipelines that listen to its source declare; a refusal names every
field that is wrong and repeats no value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic.functional_validators import AfterValidator

from ingestion.partitions import SNAPSHOT, parse_day
from ingestion.sources import get_resource
from orchestration.identity import digest
from orchestration.pipelines.spec import PipelineSpec
from orchestration.triggers.schedule import last_closed_day

MAX_DAYS = 366


class EventType(StrEnum):
    """`corrected` has what is there fetched again, as a new revision."""

    READY = "partitions.ready"
    CORRECTED = "partitions.corrected"


@dataclass(frozen=True)
class Event:
    """Windows of one resource, for the pipelines that have it."""

    type: EventType
    resource: str
    windows: tuple[str, ...]
    pipelines: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"type": self.type, "resource": self.resource, "windows": list(self.windows)}

    @property
    def content_digest(self) -> str:
        """Two messages with the same one ask for the same."""
        return digest(self.as_json())


class EventRefused(Exception):
    """`problems` names what is wrong: (place in the message, what it should be)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{place}: {text}" for place, text in problems))
        self.problems = problems


def _is_day(text: str) -> str:
    parse_day(text)
    return text


def _is_one_of(name: str, info: ValidationInfo) -> str:
    known = info.context or ()
    if name not in known:
        raise ValueError(f"should be one of: {', '.join(sorted(known))}")
    return name


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class _Data(_Strict):
    resource: Annotated[str, AfterValidator(_is_one_of)]
    days: (
        Annotated[
            list[Annotated[str, AfterValidator(_is_day)]],
            Field(min_length=1, max_length=MAX_DAYS),
        ]
        | None
    ) = None


class _Message(_Strict):
    type: Literal["partitions.ready", "partitions.corrected"]
    timestamp: AwareDatetime
    data: _Data


def read_event(body: bytes, listening: Mapping[str, PipelineSpec], moment: datetime) -> Event:
    """The event that a message is, for the pipelines that listen to its source.

    Raises `EventRefused` for a message that is not exactly one, and for days that have not ended.
    """
    resources = {name for pipeline in listening.values() for name in pipeline.resource_names}
    try:
        message = _Message.model_validate_json(body, context=resources)
    except ValidationError as error:
        raise EventRefused(_problems(error)) from None
    resource = message.data.resource
    concerned = {
        name: pipeline
        for name, pipeline in listening.items()
        if resource in pipeline.resource_names
    }
    return Event(
        EventType(message.type),
        resource,
        _windows(resource, message.data.days, concerned, moment),
        tuple(sorted(concerned)),
    )


def _windows(
    resource: str,
    days: list[str] | None,
    pipelines: Mapping[str, PipelineSpec],
    moment: datetime,
) -> tuple[str, ...]:
    if get_resource(resource).contract.window_kind == SNAPSHOT:
        if days is not None:
            raise EventRefused([("data.days", f"leave it out; {resource} has no days")])
        return (SNAPSHOT,)
    if days is None:
        raise EventRefused([("data.days", f"name the days of {resource}")])
    windows = tuple(sorted(set(days)))
    last = min(last_closed_day(pipeline, moment) for pipeline in pipelines.values()).isoformat()
    if windows[-1] > last:
        raise EventRefused([("data.days", f"the last day that has ended is {last}")])
    return windows


def _problems(error: ValidationError) -> list[tuple[str, str]]:
    found = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"]) or "body"
        found.append((place, problem["msg"].removeprefix("Value error, ")))
    return found
