"""Every way ingestion can fail, as classes with a code for machines and a sentence for people.

A message ends with what to do and holds no value of any record, no token and no answer of the
source.
"""


class IngestionError(Exception):
    """Base of all errors that ingestion raises on purpose.

    `code` is a stable snake_case word; `transient` says whether the same call may succeed later
    without anybody changing anything.
    """

    def __init__(self, message: str, *, code: str, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.transient = transient


class SourceError(IngestionError):
    """The source did not deliver usable data.

    `retry_after` is the wait in seconds that the source asked for, if it did.
    """

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


class ContractVersionError(SourceError):
    """The source answers in a schema version that the contract does not support. Permanent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="source_schema_unsupported")


class FetchStopped(IngestionError):
    """The caller's `stop` said that the budget is used up; nothing of the partition was kept."""

    def __init__(self, partition: str) -> None:
        super().__init__(
            f"fetching {partition} was stopped because the stage's budget is used up; "
            "run again to fetch what remains",
            code="budget_exhausted",
            transient=True,
        )


class LoadError(IngestionError):
    """The warehouse did not take the rows. `sqlstate` is Postgres's code, where there is one."""

    def __init__(
        self, message: str, *, code: str, transient: bool = False, sqlstate: str | None = None
    ) -> None:
        super().__init__(message, code=code, transient=transient)
        self.sqlstate = sqlstate


class IngestionConfigurationError(IngestionError):
    """Something that a person declared is wrong or missing. Permanent."""

    def __init__(self, message: str, *, code: str = "configuration") -> None:
        super().__init__(message, code=code)
