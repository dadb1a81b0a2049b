"""Fetches one partition: pages in, sensitive values out, records judged, the rest on disk.

Either the whole partition ends up in the spool or nothing does. Every record that the source sent
is accepted or rejected, and the source's own count must agree.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingestion.answers import Page
from ingestion.checks import PartitionJudge
from ingestion.client import SourceClient, missing_variables
from ingestion.errors import IngestionError, SourceError
from ingestion.partitions import Partition
from ingestion.redaction import KEY_VARIABLE, Redactor, read_key
from ingestion.rejections import RejectedRecord, explain
from ingestion.resources import Resource, Source
from ingestion.sources import get_source
from ingestion.spool import Fetched, write_spooled


@dataclass(frozen=True, slots=True)
class Collected:
    """All pages of a partition, judged: fetched = rows of the table + rejected."""

    table: Any
    rejected: list[RejectedRecord]
    fetched: int
    schema_version: str


def fetch_partition(
    resource: Resource,
    partition: Partition,
    *,
    environ: Mapping[str, str],
    run_id: str,
    spool_dir: Path,
    on_page: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    client: SourceClient | None = None,
) -> Fetched:
    """Fetches, redacts and judges a partition and spools the result.

    `on_page` is told (records so far, records in all); `stop` is asked before every page and every
    wait. Raises `SourceError`, `IngestionConfigurationError`, `FetchStopped`, and `OSError` from
    the spool.
    """
    key = read_key(resource.contract, environ)
    judge = PartitionJudge(resource.contract, partition, Redactor(resource.contract, key))
    fetched_at = datetime.now(UTC)
    with ExitStack() as stack:
        if client is None:
            client = stack.enter_context(SourceClient(get_source(resource.source), environ))
        pages = client.pages(resource, partition, stop=stop or _never)
        collected = collect_pages(resource, pages, judge, on_page or _ignore)
    return write_spooled(
        spool_dir,
        collected.table,
        collected.rejected,
        {
            "resource": resource.full_name,
            "partition": str(partition),
            "run_id": run_id,
            "fetched": collected.fetched,
            "schema_version": collected.schema_version,
            "contract_version": resource.contract.version,
            "unexpected_fields": tuple(sorted(judge.unexpected_fields)),
            "fetched_at": fetched_at,
        },
    )


def collect_pages(
    resource: Resource,
    pages: Iterable[Page],
    judge: PartitionJudge,
    on_page: Callable[[int, int], None],
) -> Collected:
    """Judges pages and builds the table. Raises `SourceError` when records are missing."""
    from ingestion.tables import TableBuilder

    builder = TableBuilder(resource.contract)
    rejected: list[RejectedRecord] = []
    fetched, total, version = 0, None, ""
    for page in pages:
        if total is not None and (page.total_records, page.schema_version) != (total, version):
            raise _incomplete(resource, "changed while it was read")
        total, version = page.total_records, page.schema_version
        fetched += len(page.records)
        judged = judge.judge(page.records, page.source_ref)
        refs = [f"{page.source_ref}#{at}" for at in judged.positions]
        if judged.columns is None:
            builder.add(judged.accepted, refs)
        else:
            builder.add_columns(judged.columns, refs)
        rejected += judged.rejected
        # The next page is parsed into the same memory, which is still in the processor's cache.
        page.records.clear()
        on_page(fetched, total)
    table = builder.finish()
    for unfit in builder.unstorable:
        name = unfit.field.name
        error = explain(unfit.field, "unstorable", unfit.record.get(name))
        rejected.append(
            judge.reject(unfit.record, unfit.source_ref, f"{name}.unstorable", name, error)
        )
    if fetched != total:
        raise _incomplete(resource, f"announced {total} records and sent {fetched}")
    if fetched != table.num_rows + len(rejected):
        raise IngestionError(
            f"{resource.full_name}: of {fetched} records {table.num_rows} were accepted and "
            f"{len(rejected)} rejected; report this as a defect",
            code="records_unaccounted",
        )
    return Collected(table, rejected, fetched, version)


def check_source(source: Source, environ: Mapping[str, str]) -> list[str]:
    """The environment variables that fetching from this source needs and that are not set."""
    missing = missing_variables(source, environ)
    needs_key = any(resource.contract.needs_pseudonym_key for resource in source.resources)
    if needs_key and not environ.get(KEY_VARIABLE):
        missing.append(KEY_VARIABLE)
    return missing


def _incomplete(resource: Resource, what: str) -> SourceError:
    return SourceError(
        f"{resource.full_name} {what}; fetch it again, and if it goes on, tell the source's owner",
        code="source_incomplete",
        transient=True,
    )


def _never() -> bool:
    return False


def _ignore(_: int, __: int) -> None:
    return None
