"""`sluice dsn` and `sluice psql`."""

import os
import shutil

from orchestration.cli.output import print_json
from orchestration.cli.session import open_warehouse, read_settings
from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Role, Warehouse


def dsn(role: str | None, *, as_json: bool) -> None:
    url = _url(open_warehouse(read_settings()), role)
    print_json({"dsn": url}) if as_json else print(url)  # noqa: T201 - the answer itself


def psql(role: str | None, arguments: list[str]) -> None:
    """Replaces this process with psql, that of the embedded server when there is no other."""
    settings = read_settings()
    url = _url(open_warehouse(settings), role)
    program = _embedded_psql() if settings.is_embedded else shutil.which("psql") or _embedded_psql()
    os.execv(program, [program, "--dbname", url, *[item for item in arguments if item != "--"]])  # noqa: S606


def _url(warehouse: Warehouse, role: str | None) -> str:
    if role in {None, "owner"}:
        return warehouse.owner_url
    names = {member.value.removeprefix("sluice_"): member for member in Role}
    if role not in names:
        raise ConfigurationError(
            f"{role!r} is not a role; use one of: owner, {', '.join(names)}", code="unknown_role"
        )
    return warehouse.url(names[role])


def _embedded_psql() -> str:
    from orchestration.warehouse.embedded_install import installed_programs

    return str(installed_programs() / "psql")
