"""The commands about roles; what they do is imported when they run."""

import typer

from orchestration.cli.options import Json

roles = typer.Typer(help="Who logs in to the warehouse.", no_args_is_help=True)


@roles.command("list")
def roles_list(json: Json = False) -> None:
    """Roles of the stages, where their passwords come from, and whether they can log in."""
    from orchestration.cli.roles import list_roles as command

    command(as_json=json)


@roles.command("sync")
def roles_sync(json: Json = False) -> None:
    """Set the passwords of the stages' roles to what the environment says."""
    from orchestration.cli.roles import sync_roles as command

    command(as_json=json)
