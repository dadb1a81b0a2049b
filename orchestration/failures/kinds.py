"""Makes the error class that a kind of failure has."""

from orchestration.errors import (
    ConfigurationError,
    DestinationFailure,
    FailureKind,
    InternalError,
    QualityFailure,
    SluiceError,
    SourceFailure,
    TransformFailure,
)


def make_failure(kind: FailureKind, message: str, *, code: str, transient: bool) -> SluiceError:
    """The error to raise; configuration and internal errors are permanent whatever is asked."""
    match kind:
        case FailureKind.SOURCE:
            return SourceFailure(message, code=code, transient=transient)
        case FailureKind.QUALITY:
            return QualityFailure(message, code=code, transient=transient)
        case FailureKind.TRANSFORM:
            return TransformFailure(message, code=code, transient=transient)
        case FailureKind.DESTINATION:
            return DestinationFailure(message, code=code, transient=transient)
        case FailureKind.CONFIGURATION:
            return ConfigurationError(message, code=code)
        case FailureKind.INTERNAL:
            return InternalError(message, code=code)
