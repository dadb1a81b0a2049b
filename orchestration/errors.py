"""Every way a run can fail, as classes: the class decides the kind and the exit code.

A message says what happened and ends with what to do. Nothing personal goes into a message.
"""

from enum import StrEnum
from typing import ClassVar


class FailureKind(StrEnum):
    """The different outcomes of a failed run; each has an exit code of its own."""

    SOURCE = "source"
    QUALITY = "quality"
    TRANSFORM = "transform"
    DESTINATION = "destination"
    CONFIGURATION = "configuration"
    INTERNAL = "internal"


EXIT_CODES: dict[FailureKind, int] = {
    FailureKind.QUALITY: 10,
    FailureKind.SOURCE: 11,
    FailureKind.TRANSFORM: 12,
    FailureKind.DESTINATION: 13,
    FailureKind.INTERNAL: 70,
    FailureKind.CONFIGURATION: 78,
}
EXIT_BUSY = 75


class SluiceError(Exception):
    """Base of all errors that Sluice raises on purpose.

    `code` is a stable snake_case word for machines, `transient` says whether the same call may
    succeed later without anybody changing anything.
    """

    kind: ClassVar[FailureKind] = FailureKind.INTERNAL

    def __init__(self, message: str, *, code: str, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.transient = transient

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.kind]


class SourceFailure(SluiceError):
    """The source did not deliver usable data.

    `retry_after` is the wait in seconds that the source asked for, if it did.
    """

    kind = FailureKind.SOURCE

    def __init__(
        self,
        message: str,
        *,
        code: str,
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, transient=transient)
        self.retry_after = retry_after


class QualityFailure(SluiceError):
    """The data broke a rule that blocks."""

    kind = FailureKind.QUALITY


class TransformFailure(SluiceError):
    """A dbt model could not be built."""

    kind = FailureKind.TRANSFORM


class DestinationFailure(SluiceError):
    """The warehouse refused or was away."""

    kind = FailureKind.DESTINATION


class ConfigurationError(SluiceError):
    """Something that a person declared is wrong or missing."""

    kind = FailureKind.CONFIGURATION

    def __init__(self, message: str, *, code: str = "configuration") -> None:
        super().__init__(message, code=code, transient=False)


class Busy(SluiceError):
    """Another process works on the same thing right now."""

    def __init__(self, message: str, *, code: str = "busy") -> None:
        super().__init__(message, code=code, transient=True)

    @property
    def exit_code(self) -> int:
        return EXIT_BUSY


class LeaseLost(Busy):
    """The lease ran out or went to another worker; nothing more may be written."""

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"the lease {lease!r} was lost to another worker, so this process stopped before it "
            "wrote anything more; run the same command again",
            code="lease_lost",
        )


class Cancelled(SluiceError):
    """Somebody asked that this run be stopped; it goes on only when somebody asks for it again."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} was cancelled on request; what it finished is kept. To go on: "
            f"sluice replay {run_id}",
            code="cancelled",
        )

    @property
    def exit_code(self) -> int:
        return EXIT_BUSY


class InternalError(SluiceError):
    """A broken promise inside Sluice itself."""

    def __init__(self, message: str, *, code: str = "internal") -> None:
        super().__init__(message, code=code, transient=False)
