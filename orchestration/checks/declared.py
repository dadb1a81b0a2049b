"""Pipeline files: each one valid, no model published twice.

A file that cannot be used is reported and left out of every later check.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestration.checks.finding import Finding, Severity, shown_path
from orchestration.pipelines.files import (
    PipelineFileError,
    load_pipeline,
    pipeline_names,
    read_document,
)
from orchestration.pipelines.problems import line_of
from orchestration.pipelines.spec import PipelineSpec

SUBJECT = "pipelines"


@dataclass(frozen=True)
class DeclaredPipeline:
    """A valid pipeline together with its file, so that findings can point at a line."""

    spec: PipelineSpec
    path: Path
    document: Any
    project_dir: Path

    def where(self, *place: int | str) -> str:
        return shown_path(self.path, self.project_dir, line_of(self.document, place))

    def error(self, subject: str, place: tuple[int | str, ...], message: str, hint: str) -> Finding:
        return Finding(Severity.ERROR, subject, self.where(*place), message, hint)

    def warning(
        self, subject: str, place: tuple[int | str, ...], message: str, hint: str
    ) -> Finding:
        return Finding(Severity.WARNING, subject, self.where(*place), message, hint)


def read_pipelines(
    pipelines_dir: Path, project_dir: Path
) -> tuple[list[DeclaredPipeline], list[Finding]]:
    """The usable pipelines, and what is wrong with the others."""
    declared, findings = [], []
    for name in pipeline_names(pipelines_dir):
        path = pipelines_dir / f"{name}.yml"
        try:
            spec = load_pipeline(path)
            declared.append(DeclaredPipeline(spec, path, read_document(path), project_dir))
        except PipelineFileError as error:
            findings += [
                Finding(
                    Severity.ERROR,
                    SUBJECT,
                    shown_path(problem.file, project_dir, problem.line),
                    problem.message,
                    problem.hint,
                )
                for problem in error.problems
            ]
    if not declared and not findings:
        place = shown_path(pipelines_dir, project_dir, 1)
        hint = "add one; docs/adding-a-source.md shows how"
        findings.append(Finding(Severity.ERROR, SUBJECT, place, "there is no pipeline file", hint))
    return declared, findings


def check_published_once(declared: Iterable[DeclaredPipeline]) -> list[Finding]:
    """A model belongs to one pipeline: its published view follows one pointer."""
    findings, first = [], dict[str, DeclaredPipeline]()
    for pipeline in declared:
        for index, model in enumerate(pipeline.spec.publishes):
            other = first.setdefault(model, pipeline)
            if other is not pipeline:
                findings.append(
                    pipeline.error(
                        SUBJECT,
                        ("publishes", index),
                        f"the pipeline {other.spec.name} publishes {model} too",
                        "take it out of one of the two; ref() still reads it across pipelines",
                    )
                )
    return findings
