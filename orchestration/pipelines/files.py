"""From a YAML file to a `PipelineSpec`; all that is wrong is reported at once, with its line."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from orchestration.errors import ConfigurationError
from orchestration.pipelines.problems import Problem, line_of, problems_from
from orchestration.pipelines.spec import PipelineSpec


class PipelineFileError(ConfigurationError):
    """A pipeline file cannot be used. `problems` has one entry for each thing to change."""

    def __init__(self, problems: list[Problem]) -> None:
        lines = "\n".join(f"{p.where}: {p.message}; {p.hint}" for p in problems)
        super().__init__(lines, code="pipeline_file")
        self.problems = tuple(problems)


def pipeline_names(directory: Path) -> list[str]:
    """The names of all pipelines that have a file, readable or not."""
    return sorted(path.stem for path in directory.glob("*.yml"))


def get_pipeline(directory: Path, name: str) -> PipelineSpec:
    """The pipeline of this name; the other files are not read.

    Raises `ConfigurationError` with the known names, or `PipelineFileError`.
    """
    names = pipeline_names(directory)
    if name not in names:
        known = f"choose one of: {', '.join(names)}" if names else f"add one to {directory}"
        raise ConfigurationError(f"there is no pipeline {name!r}; {known}", code="unknown_pipeline")
    return load_pipeline(directory / f"{name}.yml")


def load_pipelines(directory: Path) -> dict[str, PipelineSpec]:
    """All pipelines by name. Raises `PipelineFileError` with the problems of all files."""
    specs, problems = {}, list[Problem]()
    for name in pipeline_names(directory):
        try:
            specs[name] = load_pipeline(directory / f"{name}.yml")
        except PipelineFileError as error:
            problems.extend(error.problems)
    if problems:
        raise PipelineFileError(problems)
    return specs


def chosen_pipelines(directory: Path, name: str | None) -> list[PipelineSpec]:
    """The pipeline of this name, or all without one. Raises what these two raise."""
    return [get_pipeline(directory, name)] if name else list(load_pipelines(directory).values())


def load_pipeline(path: Path) -> PipelineSpec:
    """The pipeline that a file declares. Raises `PipelineFileError`."""
    document = read_document(path)
    try:
        spec = PipelineSpec.model_validate(document)
    except ValidationError as error:
        raise PipelineFileError(problems_from(path, document, error, PipelineSpec)) from None
    if spec.name != path.stem:
        line = line_of(document, ("name",))
        message = f"the pipeline is called {spec.name!r}, its file {path.name!r}"
        hint = f"rename the file to {spec.name}.yml, or write `name: {path.stem}`"
        raise PipelineFileError([Problem(path, line, message, hint)])
    return spec


def read_document(path: Path) -> Any:
    """The YAML of a pipeline file with line numbers in it. Raises `PipelineFileError`."""
    try:
        document = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(str(error.problem or error.context or "not YAML").split())
        raise PipelineFileError(
            [Problem(path, mark.line + 1 if mark else 1, message, "correct the YAML")]
        ) from None
    except (OSError, UnicodeError, YAMLError) as error:
        reason = type(error).__name__
        raise PipelineFileError(
            [Problem(path, 1, f"cannot be read as YAML ({reason})", "check file and encoding")]
        ) from None
    if not isinstance(document, dict):
        hint = "start with `name:`; orchestration/pipelines/flights.yml is an example"
        raise PipelineFileError([Problem(path, 1, "declares nothing", hint)])
    return document
