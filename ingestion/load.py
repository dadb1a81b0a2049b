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

_ROW_GROUP_ROWS = 20_000
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
        destination=_destination(dlt, url),
        dataset_name=SCHEMA,
    )
    pipeline.extract(
        [_dlt_resource(dlt, one, by_resource[one.full_name], folder) for one in resources],
        schema=_declare_schema(dlt, resources),
        loader_file_format="parquet",
    )
    pipeline.normalize(workers=1)
    pipeline.load(workers=_CONNECTIONS, raise_on_failed_jobs=True)


def _destination(dlt: Any, url: str) -> Any:
    """dlt's own Postgres destination. It asks the environment for the same answer at every step of a
    run, which is half of what a small run costs; here it asks once.
    """
    destination = dlt.destinations.postgres(credentials=url)
    ask = destination.capabilities
    answers: dict[int, Any] = {}

    def capabilities(config: Any = None, naming: Any = None) -> Any:
        if config is not None or naming is not None:
            return ask(config, naming)
        if not answers:
            answers[0] = ask()
        return answers[0].copy()

    destination.capabilities = capabilities
    return destination


def _dlt_resource(dlt: Any, resource: Resource, items: list[LoadItem], folder: Path) -> Any:
    from ingestion.tables import staging_schema

    def import_file() -> Iterator[Any]:
        path = folder / f"{resource.staging_table}.parquet"
        if rows := _write_parquet(resource, items, path):
            # The empty table tells dlt the columns, which its frozen schema is compared with.
            columns = staging_schema(resource.contract).empty_table()
            yield dlt.mark.with_file_import(str(path), "parquet", rows, hints=columns)

    return dlt.resource(
        import_file,
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


def _write_parquet(resource: Resource, items: list[LoadItem], path: Path) -> int:
    """Writes the rows of all items with their bookkeeping columns; returns how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ingestion.tables import staging_schema

    rows = 0
    waiting: list[Any] = []
    schema = staging_schema(resource.contract)
    # Read once and at once, so neither compressed nor, but for what repeats, encoded.
    with pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=["_artifact_id", "_partition", "_run_id"],
        write_statistics=False,
    ) as writer:
        for item in items:
            waiting.append(_read_item(item, schema))
            rows += waiting[-1].num_rows
            if sum(table.num_rows for table in waiting) >= _ROW_GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return rows


def _read_item(item: LoadItem, schema: Any) -> Any:
    """The rows of an item in the columns of its staging table."""
    import pyarrow as pa

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
    columns = [repeated[name] if name in repeated else table.column(name) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)
