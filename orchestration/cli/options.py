"""Options and arguments that several commands share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Show the newest N.")]
RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="A run, or the beginning of its id; default: the latest."),
]
NamedRun = Annotated[str, typer.Argument(metavar="RUN", help="A run, or the beginning of its id.")]
VersionArgument = Annotated[
    str | None, typer.Argument(metavar="VERSION", help="A version, or the beginning of its id.")
]
NamedVersion = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version, or the beginning of its id.")
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept for ever.")]
NamedPipeline = Annotated[
    str, typer.Option("--pipeline", help="A file in orchestration/pipelines.")
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="The moment freshness is judged for, ISO 8601; default: now."),
]
PipelineOption = Annotated[str | None, typer.Option("--pipeline", help="Only this pipeline.")]
