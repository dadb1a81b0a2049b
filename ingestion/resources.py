"""What a source offers and where: a source has resources, a resource has a contract and a path.

Values only; everything that fetches, checks or loads reads these and knows no source by name.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from ingestion.contracts import Contract
from ingestion.partitions import SNAPSHOT, Partition

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
_TABLE_NAME_LENGTH = 48


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One endpoint of a source. `path` is appended to the source's URL; `window_parameter` is the
    query parameter that takes the day (day resources only)."""

    contract: Contract
    path: str
    window_parameter: str = "date"

    @property
    def full_name(self) -> str:
        """`<source>.<name>`, which is also the contract's name."""
        return self.contract.name

    @property
    def source(self) -> str:
        return self.full_name.partition(".")[0]

    @property
    def name(self) -> str:
        return self.full_name.partition(".")[2]

    @property
    def staging_table(self) -> str:
        """Table of schema staging: `<source>__<name>`."""
        return f"{self.source}__{self.name}"

    def query(self, partition: Partition) -> dict[str, str]:
        """The query parameters that ask for a partition. Raises `ValueError` if it is not of this
        resource.
        """
        is_snapshot = partition.window == SNAPSHOT
        if partition.resource != self.full_name or is_snapshot != (self.contract.day is None):
            raise ValueError(f"{partition} is no partition of {self.full_name}")
        return {} if is_snapshot else {self.window_parameter: partition.window}

    def describe(self) -> dict[str, Any]:
        """JSON-able description with the contract in it."""
        return {
            "resource": self.full_name,
            "path": self.path,
            "staging_table": f"staging.{self.staging_table}",
            "contract": self.contract.describe(),
        }


@dataclass(frozen=True, kw_only=True)
class Source:
    """A service that we fetch from: its URL and token come from two environment variables."""

    name: str
    description: str
    resources: tuple[Resource, ...] = field(default=())

    def __post_init__(self) -> None:
        for resource in self.resources:
            full_name = resource.full_name
            if resource.source != self.name:
                raise TypeError(f"{full_name}: name the contract {self.name}.<resource>")
            if not _NAME.fullmatch(self.name) or not _NAME.fullmatch(resource.name):
                raise TypeError(f"{full_name}: names are lower case words joined by one underscore")
            if len(resource.staging_table) > _TABLE_NAME_LENGTH:
                raise TypeError(f"{full_name}: at most {_TABLE_NAME_LENGTH} characters; shorten it")

    @property
    def url_variable(self) -> str:
        return f"SLUICE_{self.name.upper()}_API_URL"

    @property
    def token_variable(self) -> str:
        return f"SLUICE_{self.name.upper()}_API_TOKEN"

    def describe(self) -> dict[str, Any]:
        """JSON-able description with all resources in it."""
        return {
            "source": self.name,
            "description": self.description,
            "url_variable": self.url_variable,
            "token_variable": self.token_variable,
            "resources": [resource.describe() for resource in self.resources],
        }
