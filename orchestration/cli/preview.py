"""`sluice preview`: the working tree's models beside what is published, judged and compared."""

from collections.abc import Sequence

from orchestration.cli.diff import require_format
from orchestration.cli.output import console, print_json, print_text, say
from orchestration.cli.progress import choose_progress
from orchestration.cli.session import open_as, prepare_logs, read_settings
from orchestration.errors import EXIT_CODES, ConfigurationError, FailureKind
from orchestration.pipelines.files import get_pipeline, pipeline_names
from orchestration.pipelines.spec import PipelineSpec
from orchestration.preview.preview import Planned, Preview, Previewed
from orchestration.runs.work_folder import work_folder
from orchestration.settings import Settings
from orchestration.warehouse.connections import Role


def preview(
    *,
    pipeline: str | None,
    select: Sequence[str],
    name: str | None,
    dry_run: bool,
    output_format: str,
) -> None:
    """Ends with exit code 10 when a gate would hold the version."""
    from orchestration.preview.preview import plan
    from orchestration.preview.preview import preview as build
    from orchestration.preview.schema import preview_schema

    require_format(output_format)
    settings = read_settings()
    prepare_logs(settings)
    warehouse = open_as(settings, Role.ANALYST)
    spec = _pipeline(settings, pipeline)
    with choose_progress() as progress, work_folder(settings.home_dir / "work") as work:
        asked = Preview(
            settings, warehouse, spec, preview_schema(name), list(select), work, progress
        )
        found: Planned | Previewed = plan(asked) if dry_run else build(asked)
    _show(found, output_format)
    if isinstance(found, Previewed) and found.refused:
        raise SystemExit(EXIT_CODES[FailureKind.QUALITY])


def clean(*, name: str | None, as_json: bool) -> None:
    from orchestration.preview.schema import clean_preview, preview_schema

    schema = preview_schema(name)
    dropped = clean_preview(open_as(read_settings(), Role.ANALYST), schema)
    if as_json:
        print_json({"schema": schema, "dropped": dropped})
    else:
        say(f"dropped {len(dropped)} relations of the preview in {schema}")


def _pipeline(settings: Settings, name: str | None) -> PipelineSpec:
    if name is not None:
        return get_pipeline(settings.pipelines_dir, name)
    known = pipeline_names(settings.pipelines_dir)
    if len(known) != 1:
        raise ConfigurationError(
            f"say which pipeline with --pipeline: {', '.join(known)}", code="which_pipeline"
        )
    return get_pipeline(settings.pipelines_dir, known[0])


def _show(found: Planned | Previewed, output_format: str) -> None:
    from orchestration.preview import markdown, text

    match output_format, found:
        case "json", _:
            print_json(found.as_json())
        case "markdown", Previewed():
            print_text(markdown.as_markdown(found))
        case "markdown", Planned():
            print_text(markdown.plan_as_markdown(found))
        case _, Previewed():
            console().print(text.as_text(found))
        case _, Planned():
            console().print(text.plan_as_text(found))
