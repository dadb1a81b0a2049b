"""render.yaml, and the environment that it describes for each service."""

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1]
BLUEPRINT: dict[str, Any] = yaml.safe_load((PROJECT / "render.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = {item["name"]: item for item in BLUEPRINT["services"]}


def variables(service: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Name → entry, those of its groups included."""
    groups = {group["name"]: group["envVars"] for group in BLUEPRINT["envVarGroups"]}
    entries = []
    for entry in service["envVars"]:
        entries += groups[entry["fromGroup"]] if "fromGroup" in entry else [entry]
    names = [entry["key"] for entry in entries]
    assert len(names) == len(set(names))
    return {entry["key"]: entry for entry in entries}


class Environments:
    """What the platform gives to each service: what it generates is the same each time it is asked.

    `database_url` is that of the one database; `given` holds what a person is asked for (`sync: false`).
    """

    def __init__(self, database_url: str, given: Mapping[str, str]) -> None:
        self.database_url, self.given = database_url, given
        self.generated: dict[str, str] = {}

    def of(self, service: dict[str, Any]) -> dict[str, str]:
        return {name: self._value(entry) for name, entry in variables(service).items()}

    def _value(self, entry: dict[str, Any]) -> str:
        match entry:
            case {"value": value}:
                return str(value)
            case {"generateValue": True, "key": key}:
                # A base64 text of 256 bits, as the platform's are.
                new = base64.b64encode(secrets.token_bytes(32)).decode()
                return self.generated.setdefault(key, new)
            case {"fromDatabase": _}:
                return self.database_url
            case {"fromService": {"name": name, "property": "slug"}}:
                return str(name)
            case {"sync": False, "key": key}:
                return self.given[key]
            case _:
                raise ValueError(f"nobody says what {entry['key']} is")
