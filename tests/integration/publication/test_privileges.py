"""Who may do what is a reviewed list, and nothing else: in a new warehouse and in one that is used."""

import difflib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from privileges import general, listed, read_rights
from segment_tables import Segment

from orchestration.publication.pins import pin_version
from orchestration.publication.versions import get_version
from orchestration.runs.operating import hold_build_lease
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.embedded_install import installed_programs
from orchestration.warehouse.versions import create_version_views

REVIEWED = Path(__file__).parents[3] / "docs" / "roles.txt"
DAY = "2013-01-01"
_GRANT = re.compile(
    r"^GRANT [^;]+? ON (?:TABLE |FUNCTION |SEQUENCE )?(SCHEMA )?([\w.]+)[^;]* TO (\w+);",
    re.MULTILINE,
)


def use(warehouse: Warehouse, flights: Any) -> None:
    """Whatever is made with rights of its own: store, versions, slots, a pin, a preview."""
    days = Segment(f"select 1 as value, '{DAY}' as _partition", (DAY,))
    for name in ("x", "y"):
        version = flights.build({"fct": [days], "dim": f"select '{name}' as name"})
        with hold_build_lease(warehouse, "flights", on_wait=lambda _: None) as lease:
            with (
                warehouse.connect(Role.RUNNER, autocommit=True) as runner,
                warehouse.connect(Role.TRANSFORMER, autocommit=True) as builder,
            ):
                found = get_version(runner, version)
                models = dict(
                    builder.execute(
                        "select model, relation_name from ops.version_models where version_id = %s",
                        [version],
                    ).fetchall()
                )
                create_version_views(builder, version, models, lease)
            flights.publish(version)
            pin_version(warehouse, found, reason="audit", actor="ann", lease=lease)
    with warehouse.connect(Role.ANALYST, autocommit=True) as analyst:
        analyst.execute("select ops.create_preview_schema('dev_ann')")


def test_every_right_in_a_warehouse_that_is_used_was_reviewed_and_every_reviewed_right_exists(
    server: EmbeddedServer, template: str, warehouse: Warehouse, flights: Any, tmp_path: Path
) -> None:
    use(warehouse, flights)
    rights = set()
    # A database that is a copy of another one has the rights on everything but the database itself.
    for each in (Warehouse(server.url(database=template)), warehouse):
        with each.connect() as owner:
            rights |= read_rights(owner)
    found = listed(rights)
    reviewed = REVIEWED.read_text().splitlines()
    if found == reviewed:
        return
    renewed = tmp_path / REVIEWED.name
    renewed.write_text("\n".join(found) + "\n")
    difference = "\n".join(
        difflib.unified_diff(reviewed, found, "reviewed", "in the database", n=0, lineterm="")
    )
    pytest.fail(
        f"the rights differ from docs/roles.txt:\n{difference}\n"
        f"if each of them is wanted: cp {renewed} docs/roles.txt",
        pytrace=False,
    )


def test_the_list_names_what_a_dump_of_the_database_grants(
    warehouse: Warehouse, flights: Any
) -> None:
    """An independent look: `pg_dump` knows of kinds of things that the list could leave out."""
    use(warehouse, flights)
    dump = subprocess.run(
        [installed_programs() / "pg_dump", "--schema-only", warehouse.owner_url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    granted = {
        (role, general(f"{kind.lower()}{name}")) for kind, name, role in _GRANT.findall(dump)
    }
    listed_rights = {
        (line[:19].strip(), re.split(r"\(|: ", line[19:])[0])
        for line in REVIEWED.read_text().splitlines()
        if not re.search(r": own$|^.{19}(role|member|database|later)", line)
    }
    # That everybody may execute a function is what a dump need not say.
    assert granted | {("public", "ops.refuse_read")} == listed_rights


def test_a_right_too_many_is_found_wherever_it_is(warehouse: Warehouse) -> None:
    grants = [
        ("grant select on ops.runs to sluice_webhook", "ops.runs: select"),
        ("grant update (owner) on ops.runs to sluice_gate", "ops.runs: update (owner)"),
        ("grant create on schema store to sluice_reader", "schema store: create"),
        ("grant sluice_publisher to sluice_gate", "member: of sluice_publisher"),
        ("alter role sluice_gate reset default_transaction_read_only", "role: logs in"),
        ("create function ops.all_may() returns int return 1", "ops.all_may(): execute"),
        ("alter schema live owner to sluice_analyst", "schema live: own"),
    ]
    with warehouse.connect() as owner:
        before = set(listed(read_rights(owner)))
        for statement, line in grants:
            # Roles belong to the server, so nothing of this is kept.
            with owner.transaction(force_rollback=True):
                owner.execute(statement.encode())
                new = set(listed(read_rights(owner))) - before
            assert any(item[19:].startswith(line) for item in new), (statement, new)
