"""The JSON Schema of pipeline files; `python -m orchestration.pipelines.schema` writes it."""

import json
from pathlib import Path

from orchestration.pipelines.spec import PipelineSpec

SCHEMA_FILE = Path(__file__).with_name("pipeline.schema.json")


def schema_text() -> str:
    """The schema as it belongs into `pipeline.schema.json`."""
    schema = PipelineSpec.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Sluice pipeline"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
