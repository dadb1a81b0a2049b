"""What a pipeline takes from the readers of its published models, said beforehand and reviewed.

An entry allows one change. Once that is published it allows nothing more, and may be taken out.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from orchestration.pipelines.acceptance import Declared

PublishedColumn = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}\.[a-z][a-z0-9_]{0,62}$")]
_KINDS = ("drop", "rename", "retype", "withdraw")


class AllowedShapeChange(Declared):
    """Exactly one of drop, rename, retype, withdraw; `to` belongs to rename and retype."""

    drop: PublishedColumn | None = None
    """model.column that the published view loses."""
    rename: PublishedColumn | None = None
    """model.column that gets another name; older versions show theirs under it after a rollback."""
    retype: PublishedColumn | None = None
    """model.column whose type changes; older versions are cast to the new type."""
    withdraw: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")] | None = None
    """A model that is published so far and does not stand in `publishes` any more."""
    to: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """The new name, or the new type as Postgres writes it, e.g. bigint or character varying(40)."""
    reason: Annotated[str, Field(pattern=r"\S")]
    """Why; kept for ever with the change."""

    @model_validator(mode="after")
    def _is_one_change(self) -> Self:
        said = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(said) != 1:
            raise ValueError(
                f"says {' and '.join(said) or 'no change'}; write one of {', '.join(_KINDS)} an entry"
            )
        if (self.to is not None) != (said[0] in {"rename", "retype"}):
            what = "lacks `to`" if self.to is None else "has a `to` that means nothing"
            raise ValueError(f"{said[0]} {what}; only rename and retype have one")
        return self

    @property
    def model(self) -> str:
        """The model that it is about."""
        return str(self.withdraw or self._column).partition(".")[0]

    @property
    def column(self) -> str:
        """The column that it is about; empty for withdraw."""
        return str(self._column or "").partition(".")[2]

    @property
    def _column(self) -> str | None:
        return self.drop or self.rename or self.retype
