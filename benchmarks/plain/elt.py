"""The plain script that Sluice is measured against: dlt with its defaults, dbt, a GX checkpoint.

    python benchmarks/plain/elt.py FOLDER FIRST_DAY LAST_DAY

One process, as many teams run it every night: fetch the days and the small tables from the API, merge
them into a raw schema, `dbt build` with incremental models, then check the marts. FOLDER keeps what dlt
and dbt like to keep between runs. Nothing survives a kill in between, nothing is held back from readers.
"""

import os
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

os.environ |= {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "ERROR",
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "GX_ANALYTICS_ENABLED": "false",
}
RAW = "raw"


def pages(url: str, token: str, resource: str, day: date | None) -> Iterator[list[dict[str, Any]]]:
    from dlt.sources.helpers import requests

    address: str | None = f"/v1/{resource}" + (f"?date={day}" if day else "")
    while address:
        answer = requests.get(url + address, headers={"Authorization": f"Bearer {token}"})
        answer.raise_for_status()
        body = answer.json()
        yield body["records"]
        address = body["next"]


def load(folder: Path, days: list[date]) -> None:
    import dlt

    url, token = os.environ["API_URL"], os.environ["API_TOKEN"]

    # dlt tells types from values, so a column that is null all day long needs a hint.
    def by_day(name: str) -> Any:
        def rows() -> Iterator[list[dict[str, Any]]]:
            for day in days:
                yield from pages(url, token, name, day)

        return dlt.resource(
            rows,
            name=name,
            write_disposition="merge",
            merge_key=["year", "month", "day"],
            columns={"wind_gust": {"data_type": "double"}} if name == "weather" else {},
        )

    def whole(name: str) -> Any:
        return dlt.resource(
            pages(url, token, name, None),
            name=name,
            write_disposition="replace",
            columns={"speed": {"data_type": "bigint"}} if name == "planes" else {},
        )

    pipeline = dlt.pipeline(
        pipeline_name="plain",
        pipelines_dir=str(folder / "dlt"),
        destination=dlt.destinations.postgres(credentials=os.environ["WAREHOUSE_URL"]),
        dataset_name=RAW,
    )
    pipeline.run(
        [
            *(by_day(name) for name in ("flights", "weather")),
            *(whole(name) for name in ("planes", "airlines", "airports")),
        ]
    )


def build(folder: Path) -> None:
    from dbt.cli.main import dbtRunner

    done = dbtRunner().invoke(
        [
            *("build", "--project-dir", str(folder / "dbt"), "--profiles-dir", str(folder / "dbt")),
            *("--quiet", "--no-write-json"),
        ]
    )
    if not done.success:
        raise SystemExit(f"dbt failed: {done.exception or [r for r in done.result if r.failures]}")


def check() -> None:
    import great_expectations as gx
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_postgres(
        "warehouse", connection_string=os.environ["WAREHOUSE_URL"], create_temp_table=False
    )
    validations = []
    for table, expectations in expectations_by_table().items():
        batch = source.add_table_asset(
            table, table_name=table, schema_name="marts"
        ).add_batch_definition_whole_table("whole")
        suite = gx.ExpectationSuite(name=table)
        for kind, arguments in expectations:
            suite.add_expectation_configuration(
                ExpectationConfiguration(type=kind, kwargs=arguments)
            )
        context.suites.add(suite)
        validations.append(
            context.validation_definitions.add(
                gx.ValidationDefinition(name=table, data=batch, suite=suite)
            )
        )
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(name="nightly", validation_definitions=validations, result_format="SUMMARY")
    )
    if not checkpoint.run().success:
        # The data are in the marts by now. Nothing keeps a single bad record out, so that this stays so
        # for every night after it.
        print("an expectation failed; somebody has to look", file=sys.stderr)


def expectations_by_table() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The expectations of the project's own suites that need nothing but Great Expectations."""
    from ruamel.yaml import YAML

    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    suites = Path(os.environ["PROJECT"]) / "expectations" / "suites" / "marts"
    for file in sorted(suites.glob("*.yml")):
        for item in YAML(typ="safe").load(file)["expectations"]:
            plain = item["type"] != "unexpected_rows_expectation"
            if plain and "$PARAMETER" not in str(item["kwargs"]):
                found.setdefault(file.stem, []).append((item["type"], dict(item["kwargs"])))
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    first, last = (date.fromisoformat(text) for text in sys.argv[2:4])
    days = [first + timedelta(days=offset) for offset in range((last - first).days + 1)]
    load(folder, days)
    build(folder)
    check()


if __name__ == "__main__":
    main()
