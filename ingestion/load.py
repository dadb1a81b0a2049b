"""Loads spooled partitions into staging: one dlt run for many, Arrow to parquet to ADBC, append
only.

Rows become visible to nobody but by their artifact id, so a load that dies half-way leaves orphans
and no damage: it is never repeated under the same artifact id. Every run works in a folder of its
own, which is removed; nothing of dlt's state outlives it.
"""

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingestion.errors import LoadError
from ingestion.load_errors import as_load_error, driver_missing
from ingestion.partitions import Partition
from ingestion.resources import Resource
from ingestion.sources import get_resource
from ingestion.spool import Fetched, read_rows
from ingestion.staging import SCHEMA, prepare_staging

__all__ = ["LoadItem", "check_driver", "load_spooled_partitions", "prepare_staging"]

_TABLE_ROWS = 20_000
_CONNECTIONS = 4


@dataclass(frozen=True)
class LoadItem:
    """A spooled partition and the artifact id that this attempt loads it under."""

    artifact_id: str
    partition: Partition
    run_id: str
    fetched: Fetched
    spool_dir: Path


def load_spooled_partitions(url: str, items: Sequence[LoadItem], *, work_dir: Path) -> None:
    """Loads all items in one package; returns when every row is committed.

    `url` is the extractor's, with a host and a password in its authority. The staging tables must
    have been prepared. Raises `LoadError`; then some of the items' rows may be in staging and some
    not.
    """
    if not items:
        return
    check_driver()
    work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix="load_", dir=work_dir))
    try:
        _run(url, items, folder)
    except LoadError:
        raise
    except Exception as error:  # noqa: BLE001 -- dlt wraps and renames; all of it is mapped
        raise as_load_error(error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_driver() -> None:
    """Raises `LoadError` when the ADBC driver is missing: dlt would only warn and load
    differently.
    """
    try:
        import adbc_driver_postgresql
    except ImportError:
        raise driver_missing() from None
    if not Path(adbc_driver_postgresql._driver_path()).is_file():  # noqa: SLF001 -- no public name
        raise driver_missing()


def _run(url: str, items: Sequence[LoadItem], folder: Path) -> None:
    from ingestion.dlt_runtime import import_dlt

    dlt = import_dlt()
    by_resource: dict[str, list[LoadItem]] = defaultdict(list)
    for item in items:
        by_resource[item.partition.resource].append(item)
    resources = [get_resource(name) for name in sorted(by_resource)]
    pipeline = dlt.pipeline(
        pipeline_name=folder.name,
        pipelines_dir=str(folder),
        destination=dlt.destinations.postgres(credentials=url),
        dataset_name=SCHEMA,
    )
    pipeline.extract(
        [_dlt_resource(dlt, one, by_resource[one.full_name]) for one in resources],
        schema=_declare_schema(dlt, resources),
        loader_file_format="parquet",
    )
    pipeline.normalize(workers=1)
    pipeline.load(workers=_CONNECTIONS, raise_on_failed_jobs=True)


def _dlt_resource(dlt: Any, resource: Resource, items: list[LoadItem]) -> Any:
    return dlt.resource(
        lambda: _tables(resource, items),
        name=resource.staging_table,
        write_disposition="append",
        schema_contract="freeze",
    )


def _declare_schema(dlt: Any, resources: Sequence[Resource]) -> Any:
    """dlt's schema as it would infer it from our tables, so that freezing it refuses anything
    else.
    """
    from dlt.common.libs.pyarrow import py_arrow_to_table_schema_columns
    from dlt.common.schema.utils import new_table

    from ingestion.tables import staging_schema

    schema = dlt.Schema(SCHEMA)
    for resource in resources:
        columns = py_arrow_to_table_schema_columns(staging_schema(resource.contract))
        schema.update_table(
            new_table(
                resource.staging_table,
                write_disposition="append",
                columns=list(columns.values()),
            )
        )
    return schema


def _tables(resource: Resource, items: list[LoadItem]) -> Iterator[Any]:
    """The rows of the items with their bookkeeping columns, in tables of about 20,000 rows."""
    import pyarrow as pa

    waiting: list[Any] = []
    rows = 0
    for item in items:
        table = _read_item(resource, item)
        waiting.append(table)
        rows += table.num_rows
        if rows >= _TABLE_ROWS:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows = [], 0
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()


def _read_item(resource: Resource, item: LoadItem) -> Any:
    import pyarrow as pa

    from ingestion.tables import staging_schema

    try:
        table = read_rows(item.spool_dir, item.fetched.ref)
    except FileNotFoundError:
        raise LoadError(
            f"the fetched rows of {item.partition} are no longer on this disk; fetch them again",
            code="load_spool_missing",
            transient=True,
        ) from None
    if table.num_rows != item.fetched.accepted:
        raise LoadError(
            f"the spooled file of {item.partition} holds {table.num_rows} rows instead of "
            f"{item.fetched.accepted}; fetch it again",
            code="load_spool_changed",
        )
    values = {
        "_artifact_id": item.artifact_id,
        "_partition": str(item.partition),
        "_run_id": item.run_id,
    }
    repeated = {
        name: pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
        for name, value in values.items()
    }
    schema = staging_schema(resource.contract)
    columns = [repeated[name] if name in repeated else table.column(name) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)
