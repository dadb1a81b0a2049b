from collections.abc import Iterator
from pathlib import Path

import pytest
from shelf import Shelf, make_shelf

from orchestration.warehouse.connections import Role, Warehouse


@pytest.fixture
def shelf(warehouse: Warehouse, tmp_path: Path) -> Iterator[Shelf]:
    """Versions made by hand, and the gate that judges them."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        shelf = make_shelf(warehouse, runner, tmp_path)
        yield shelf
        shelf.owner.close()
        shelf.builder.close()
