"""The command line. Nothing heavy is imported before the command that needs it runs."""

from orchestration.cli.entry import main

__all__ = ["main"]
