"""The canonical form: formatting and comments vanish, meaning never does."""

import pytest

from orchestration.warehouse.dbt.canonical import canonical_jinja, canonical_sql


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a, b from t", "SELECT a,\n\n  b\nFROM t"),
        ("select a -- why\nfrom t", "select a /* because /* nested */ */ from t"),
        ("select a from t where b != 1", "select a from t where b <> 1;"),
        ("select count(*) from t", "select count( * )\tfrom t"),
        ("select 1 as total", "select 1 AS Total"),
        ("", " -- nothing\n"),
    ],
)
def test_layout_case_and_comments_do_not_count(one: str, other: str) -> None:
    assert canonical_sql(one) == canonical_sql(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select 'a  b'", "select 'a b'"),
        ("select 'A'", "select 'a'"),
        ("select '--x'", "select '--y'"),
        ('select "A" from t', 'select "a" from t'),
        ("select 'a'", 'select "a"'),
        ("select E'\\n'", "select '\\n'"),
        ("select $$a b$$", "select $$a  b$$"),
        ("select 1.10", "select 1.1"),
        ("select a - -b", "select a + -b"),
        ("select u & 'x'", "select U&'x'"),
        ("select a ->> 'k'", "select a -> 'k'"),
        ("select a from t union all select b from u", "select a from t union select b from u"),
        ("select (a)", "select a, b"),
        ("select 'it''s'", "select 'its'"),
        ("select a <@ b", "select a < @ b"),
        ("select a from t limit 1", "select a from t"),
    ],
)
def test_whatever_may_mean_something_else_counts(one: str, other: str) -> None:
    assert canonical_sql(one) != canonical_sql(other)


def test_text_that_is_not_sql_is_compared_as_it_is() -> None:
    assert canonical_sql("select 'open") == [["raw", "select 'open"]]
    assert canonical_sql("select 'open ") != canonical_sql("select 'open")


def test_jinja_comments_and_spaces_do_not_count_but_strings_do() -> None:
    one = "{% macro a(x) %}  {{ x }}\n and more {% endmacro %}"
    other = "{# new #}{% macro  a( x ) %}{{x}} and   more{% endmacro %}"
    assert canonical_jinja(one) == canonical_jinja(other)
    assert canonical_jinja("{{ f('a b') }}") != canonical_jinja("{{ f('a  b') }}")
    assert canonical_jinja("select 'a b'") != canonical_jinja("select 'a  b'")
