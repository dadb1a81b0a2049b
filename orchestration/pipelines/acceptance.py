"""The words in which a stage says what it accepts; each is a fact that the runner can look up.

A word that a pipeline file leaves out has the default stated here; an unknown word is an error.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

FieldName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
SchemaVersion = Annotated[str, Field(min_length=1, max_length=32)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Declared(BaseModel):
    """Base of everything that a pipeline file declares: no unknown words, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Verdict(StrEnum):
    """What a suite says about its subject. A suite that could not be evaluated says nothing."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"


class Severity(StrEnum):
    """Whether a broken rule stops the work or is only said."""

    ERROR = "error"
    WARNING = "warning"


GOOD_VERDICTS = (Verdict.PASSED, Verdict.WARNED)
Verdicts = Annotated[tuple[Verdict, ...], Field(min_length=1)]


class Freshness(Declared):
    """How old the fetched copy of a partition may be at the moment the run speaks for (`as_of`)."""

    max_age_hours: Annotated[float, Field(gt=0)]
    """Hours between the fetch of the partition and the run's as_of."""
    severity: Severity = Severity.ERROR
    """error: the partition is not accepted. warning: it is accepted, and its age is reported."""


class InitializeAcceptance(Declared):
    min_partitions: Annotated[int, Field(ge=1)] = 1
    """The plan of the run names at least this many partitions."""


class ExtractAcceptance(Declared):
    artifact_exists: Literal[True] = True
    """Every partition has an adopted artifact whose row count and checksum still hold."""
    schema_versions: Annotated[tuple[SchemaVersion, ...], Field(min_length=1)]
    """The source's answers carried one of these schema versions."""


class ArtifactAcceptance(Declared):
    """What the rows of one partition must be for it to enter a version."""

    min_records: Count = 0
    """At least this many records were loaded."""
    max_quarantined_share: Share = 0.0
    """At most this share of the fetched records is in quarantine."""
    required_fields: tuple[FieldName, ...] = ()
    """These columns exist and are null in no record."""
    freshness: Freshness | None = None
    """How old the fetched copy may be; without it any age is accepted."""
    verdicts: Verdicts = GOOD_VERDICTS
    """What the resource's suite may say."""


class AcceptanceOverride(Declared):
    """The words of `stages.validate.acceptance` that one resource says differently."""

    min_records: Count | None = None
    """At least this many records were loaded."""
    max_quarantined_share: Share | None = None
    """At most this share of the fetched records is in quarantine."""
    required_fields: tuple[FieldName, ...] | None = None
    """These columns exist and are null in no record."""
    freshness: Freshness | None = None
    """How old the fetched copy may be."""
    verdicts: Verdicts | None = None
    """What the resource's suite may say."""

    def over(self, base: ArtifactAcceptance) -> ArtifactAcceptance:
        """The base with every word that is said here replaced."""
        said = {name: getattr(self, name) for name in self.model_fields_set}
        return base.model_copy(update={k: v for k, v in said.items() if v is not None})


class TransformAcceptance(Declared):
    artifact_exists: Literal[True] = True
    """Every model of the version has an adopted relation."""
    min_records: Count = 0
    """Each published table holds at least this many rows."""
    required_fields: dict[str, tuple[FieldName, ...]] = Field(default_factory=dict)
    """Model name → columns that its relation has."""


class GateAcceptance(Declared):
    artifact_exists: Literal[True] = True
    """Every suite of the pipeline has a verdict on this version."""
    verdicts: Verdicts = GOOD_VERDICTS
    """What the suites may say."""


class PublishAcceptance(Declared):
    artifact_exists: Literal[True] = True
    """The pointer names the version, and its slot shows every published model of it."""


class NotifyAcceptance(Declared):
    artifact_exists: Literal[True] = True
    """The message about this outcome is stored for delivery."""
