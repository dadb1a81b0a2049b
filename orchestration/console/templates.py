"""The pages' frames: plain HTML without scripts, everything escaped."""

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.responses import HTMLResponse


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that this template makes of the values."""
    return HTMLResponse(_environment().get_template(name).render(**values), status)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["shown"] = _shown
    return environment


def _text(name: str) -> str:
    return resources.files("orchestration.console").joinpath(name).read_text("utf-8")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        case dict():
            return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
        case list():
            return ", ".join(map(_shown, value))
        case _:
            return str(value)
