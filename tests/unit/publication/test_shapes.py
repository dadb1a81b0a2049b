import pytest

from orchestration.errors import ConfigurationError
from orchestration.publication.shape_rules import require_allowed
from orchestration.publication.shapes import Column, Shape, compare_shape, widen

NUMBER, NAME, EXTRA = Column("number", "bigint"), Column("name", "text"), Column("extra", "text")


def test_the_same_columns_in_another_order_are_no_change() -> None:
    change = compare_shape([NUMBER, NAME], [NAME, NUMBER])
    assert not change.breaks
    assert change.added == ()


def test_a_new_column_is_appended_and_breaks_nothing() -> None:
    assert not compare_shape([NUMBER, NAME], [EXTRA, NUMBER, NAME]).breaks
    widened = widen(Shape((NUMBER, NAME), 3), [EXTRA, NUMBER, NAME])
    assert widened == Shape((NUMBER, NAME, EXTRA), 3)


def test_columns_that_begin_with_an_underscore_do_not_count() -> None:
    hidden = Column("_partition", "text")
    assert compare_shape([NUMBER], [NUMBER, hidden]) == compare_shape([NUMBER, hidden], [NUMBER])
    assert widen(Shape((NUMBER,)), [NUMBER, hidden]) == Shape((NUMBER,))


@pytest.mark.parametrize("new_type", ["integer", "bigint[]", "numeric(10,2)"])
def test_another_type_of_a_column_breaks(new_type: str) -> None:
    change = compare_shape([NUMBER], [Column("number", new_type)])
    assert change.breaks
    with pytest.raises(ConfigurationError, match=r"fct\.number was bigint and is now") as caught:
        require_allowed({"fct": change})
    assert caught.value.code == "shape_change"


def test_every_break_is_listed_at_once() -> None:
    changes = {"fct": compare_shape([NUMBER, NAME], [EXTRA]), "dim": compare_shape([NAME], [])}
    with pytest.raises(ConfigurationError) as caught:
        require_allowed(changes, ["gone"])
    for part in (
        "fct.number was dropped",
        "fct.name",
        "dim.name",
        "gone is published and would not be",
    ):
        assert part in caught.value.message
