"""What a gate concluded, as values that survive JSON and hold no row of the data.

Only counts, percentages, single aggregates and the keys of a few rows are kept, and nothing that is
sensitive; a verdict can be stored, logged and shown to anyone who may see the suite.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from expectations.scope import Manner


class Severity(StrEnum):
    """What a failed expectation means: critical blocks, warning tells the owner, info is kept."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class VerdictStatus(StrEnum):
    """`error` means that the suite could not be evaluated; it says nothing about the data."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """Why something could not be evaluated. `message` holds neither row values nor secrets.

    `code` is an SQLSTATE, or one of `connection`, `missing_column`, `missing_parameter`,
    `evaluation`. `transient` means that the same evaluation may succeed when tried again.
    """

    code: str
    message: str
    transient: bool


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation's outcome.

    `expectation_id` is stable for the same type and arguments (12 hex digits). `observed` is one
    aggregate; `bounds` are the arguments after parameters were filled in. `partitions` counts the
    unexpected rows of each partition, for a failed expectation whose rows can be told apart; None
    when the failure cannot be attributed. `examples` are the keys of the first few of them.
    `manner` says what was looked at (see `scope`). `error` is set when it could not be evaluated.
    """

    expectation_id: str
    type: str
    columns: tuple[str, ...]
    severity: Severity
    success: bool
    reason: str
    owner: str
    runbook: str
    observed: bool | int | float | str | None = None
    bounds: Mapping[str, Any] = field(default_factory=dict)
    element_count: int | None = None
    unexpected_count: int | None = None
    unexpected_percent: float | None = None
    partitions: Mapping[str, int] | None = None
    examples: tuple[str, ...] = ()
    manner: Manner = Manner.WHOLE
    error: EvaluationError | None = None

    @property
    def failed(self) -> bool:
        """Whether the data broke this expectation; an error is not a failure."""
        return not self.success and self.error is None

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        fields = dict(value)
        fields["columns"] = tuple(fields["columns"])
        fields["examples"] = tuple(fields.get("examples") or ())
        fields["severity"] = Severity(fields["severity"])
        fields["manner"] = Manner(fields.get("manner", Manner.WHOLE))
        if fields.get("error") is not None:
            fields["error"] = EvaluationError(**fields["error"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A suite's outcome on one subject. `duration_s` is wall time in seconds.

    `partitions` are those that were judged, None when it was everything. Expectations that nothing
    has changed for since an earlier verdict have no result; `statistics` count them as unchanged.
    """

    suite: str
    status: VerdictStatus
    results: tuple[ExpectationResult, ...]
    statistics: Mapping[str, int]
    duration_s: float
    error: EvaluationError | None = None
    partitions: tuple[str, ...] | None = None

    @classmethod
    def conclude(
        cls,
        suite: str,
        results: Iterable[ExpectationResult],
        duration_s: float,
        error: EvaluationError | None = None,
    ) -> Self:
        """Derive status and statistics: any error, then failed critical, then failed warning.

        Of several errors the first transient one is kept, because trying again may clear it.
        """
        kept = tuple(results)
        errors = [error] if error else []
        errors += [result.error for result in kept if result.error]
        errors.sort(key=lambda found: not found.transient)
        failed = dict.fromkeys(Severity, 0)
        for result in kept:
            failed[result.severity] += result.failed
        if errors:
            status = VerdictStatus.ERROR
        elif failed[Severity.CRITICAL]:
            status = VerdictStatus.FAILED
        elif failed[Severity.WARNING]:
            status = VerdictStatus.WARNED
        else:
            status = VerdictStatus.PASSED
        statistics = {
            "expectations": len(kept),
            "passed": sum(result.success for result in kept),
            "failed_critical": failed[Severity.CRITICAL],
            "failed_warning": failed[Severity.WARNING],
            "failed_info": failed[Severity.INFO],
            "errors": sum(result.error is not None for result in kept),
            "unchanged": 0,
        }
        return cls(
            suite=suite,
            status=status,
            results=kept,
            statistics=statistics,
            duration_s=round(duration_s, 4),
            error=errors[0] if errors else None,
        )

    @classmethod
    def combine(
        cls,
        suite: str,
        verdicts: Iterable["Verdict"],
        *,
        order: Sequence[str],
        partitions: Collection[str] | None,
    ) -> Self:
        """One verdict of several on parts of a suite, whose expectation ids `order` lists."""
        parts = tuple(verdicts)
        results = [result for part in parts for result in part.results]
        results.sort(key=lambda result: order.index(result.expectation_id))
        errors = sorted((p.error for p in parts if p.error), key=lambda found: not found.transient)
        seconds = sum(part.duration_s for part in parts)
        whole = cls.conclude(suite, results, seconds, errors[0] if errors else None)
        evaluated = {result.expectation_id for result in results}
        # What broke off has no results, and is not unchanged either.
        unchanged = 0 if errors else len(order) - len(evaluated)
        return replace(
            whole,
            statistics={**whole.statistics, "unchanged": unchanged},
            partitions=None if partitions is None else tuple(sorted(partitions)),
        )

    @property
    def transient(self) -> bool:
        """Whether trying the same evaluation again may give a verdict."""
        return self.error is not None and self.error.transient

    def failures(self, severity: Severity) -> tuple[ExpectationResult, ...]:
        """Failed expectations of one severity."""
        return tuple(item for item in self.results if item.failed and item.severity is severity)

    def failed_partitions(
        self, severity: Severity = Severity.CRITICAL
    ) -> dict[str, tuple[str, ...]]:
        """Partition -> ids of the expectations of `severity` that it broke, both sorted."""
        broken: dict[str, set[str]] = {}
        for result in self.failures(severity):
            for partition in result.partitions or {}:
                broken.setdefault(partition, set()).add(result.expectation_id)
        return {partition: tuple(sorted(broken[partition])) for partition in sorted(broken)}

    def unattributed(self, severity: Severity = Severity.CRITICAL) -> tuple[ExpectationResult, ...]:
        """Failures of `severity` that no partition can be blamed for: they concern all of them."""
        return tuple(item for item in self.failures(severity) if not item.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` gives an equal verdict back."""
        value = asdict(self)
        value["results"] = [
            {**item, "columns": list(item["columns"]), "examples": list(item["examples"])}
            for item in value["results"]
        ]
        value["partitions"] = None if self.partitions is None else list(self.partitions)
        return value

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            suite=value["suite"],
            status=VerdictStatus(value["status"]),
            results=tuple(ExpectationResult.from_dict(item) for item in value["results"]),
            statistics=dict(value["statistics"]),
            duration_s=value["duration_s"],
            error=EvaluationError(**value["error"]) if value.get("error") else None,
            partitions=tuple(value["partitions"]) if value.get("partitions") is not None else None,
        )
