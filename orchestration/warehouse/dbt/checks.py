"""What a model may not be: whatever a content key cannot see is refused, never ignored.

All refusals of a selection are reported together, each with the model, its file and a way out.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.canonical import Word, words_of
from orchestration.warehouse.dbt.graph import PLACEHOLDER_DATABASE, ModelNode, ProjectGraph
from orchestration.warehouse.dbt.partitioning import partition_refusals, unsettled_readers
from orchestration.warehouse.names import MODEL_NAME_LENGTH, is_identifier

# fmt: off
_MOMENT_WORDS = frozenset({
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp",
    "current_user", "current_role", "session_user", "current_catalog", "current_schema",
})
_MOMENT_CALLS = frozenset({
    "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday",
    "random", "random_normal", "setseed", "gen_random_uuid", "gen_random_bytes", "uuidv4",
    "uuidv7", "uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4", "nextval",
    "currval", "lastval", "setval", "txid_current", "txid_current_snapshot",
    "pg_current_xact_id", "pg_current_snapshot", "pg_backend_pid", "pg_current_wal_lsn",
    "current_setting", "current_query", "current_database", "current_schemas",
    "inet_client_addr", "inet_server_addr", "pg_postmaster_start_time", "pg_conf_load_time",
    "pg_relation_size", "pg_total_relation_size", "pg_table_size", "pg_database_size",
    "pg_sleep", "pg_read_file", "pg_stat_file", "pg_ls_dir", "dblink", "query_to_xml",
    "table_to_xml", "version",
})
# fmt: on
_MOMENT_TEXTS = frozenset({"now", "today", "tomorrow", "yesterday"})
# fmt: off
_MOMENT_JINJA = frozenset({
    "run_started_at", "invocation_id", "run_query", "statement", "load_result",
    "dbt_metadata_envs", "thread_id", "invocation_args_dict", "selected_resources",
})
# fmt: on
_MOMENT_ATTRIBUTES = frozenset({"now", "utcnow", "today", "execute", "get_columns_in_relation"})
_MOMENT_MACROS = {
    f"macro.dbt.{name}": name
    for name in ("run_query", "statement", "noop_statement", "get_query_results_as_dict")
}
_BUILT = frozenset({"versioned", "table", "view", "seed"})
# fmt: off
_STORED_CONFIG = frozenset({
    "indexes", "contract", "column_types", "delimiter", "quote_columns", "partition_by",
    "lookback",
})
IGNORED_CONFIG = frozenset({
    "enabled", "alias", "schema", "database", "tags", "meta", "group", "materialized",
    "persist_docs", "grants", "packages", "docs", "access", "freshness", "event_time",
    "full_refresh", "on_configuration_change", "on_schema_change", "incremental_strategy",
    "unique_key", "concurrent_batches", "batch_size", "begin", "quoting", "static_analysis",
    "description",
})
# fmt: on
_HOOK = "a hook changes what no key sees; put its work into the model, `indexes` or the contract"
_REFUSED_CONFIG = {
    "pre-hook": _HOOK,
    "post-hook": _HOOK,
    "sql_header": "put its work into the model itself",
    "unlogged": "an unlogged table is empty after a crash: remove the setting",
}


def stored_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a model's config that changes what is stored."""
    return {name: config[name] for name in sorted(_STORED_CONFIG & set(config))}


def check_models(graph: ProjectGraph, published: Collection[str] = ()) -> None:
    """Raises one `ConfigurationError` that lists everything that is refused; else returns.

    `published` are the names of the models that readers will see.
    """
    found = [line for model in graph.models for line in _refusals(model)]
    found += [line for name in published for line in _published_refusals(graph, name)]
    found += unsettled_readers(graph)
    raise_refusals(found)


def raise_refusals(found: Sequence[str]) -> None:
    if found:
        lines = "\n".join(f"  {line}" for line in found)
        raise ConfigurationError(
            f"{len(found)} model problem(s):\n{lines}\nCorrect the dbt project and run again.",
            code="model_refused",
        )


def declared_refusals(model: ModelNode, language: str = "sql") -> Iterator[str]:
    """What can be refused before dbt compiles anything."""
    title = model.title
    if len(model.name.encode()) > MODEL_NAME_LENGTH:
        yield f"{title}: the name is longer than {MODEL_NAME_LENGTH} bytes; shorten it"
    elif not is_identifier(model.name):
        yield f"{title}: the name has more than small letters, digits and _; rename it"
    if language != "sql":
        yield f"{title}: models in {language} are not supported; write it in SQL"
    elif model.materialized not in _BUILT:
        yield (
            f"{title}: materialized as {model.materialized!r}, which keeps state that no key sees; "
            "use 'versioned' (or table, view, ephemeral)"
        )
    else:
        yield from _config_refusals(model)
        yield from partition_refusals(model)
    yield from _jinja_refusals(model)


def _refusals(model: ModelNode) -> Iterator[str]:
    yield from declared_refusals(model)
    yield from _sql_refusals(model)


def hidden_inputs(code: str) -> list[str]:
    """What a statement depends on besides placeholders and its own tables: the moment, the session,
    or relations that it names itself. Raises `ValueError` for what cannot be read."""
    words = words_of(code)
    return sorted({*_moments(words), *_foreign_tables(code, words)})


def hidden_in_jinja(texts: Iterable[str], macros: Iterable[str]) -> list[str]:
    """The same for Jinja: names that differ from run to run, calls that read the warehouse."""
    called = {name for macro, name in _MOMENT_MACROS.items() if macro in set(macros)}
    return sorted(called.union(*map(_moment_names, texts)))


def _config_refusals(model: ModelNode) -> Iterator[str]:
    title = model.title
    for name, value in sorted(model.config.items()):
        if name in _REFUSED_CONFIG:
            if value:
                yield f"{title}: config {name!r}: {_REFUSED_CONFIG[name]}"
        elif name not in IGNORED_CONFIG | _STORED_CONFIG and value is not None:
            yield f"{title}: unknown config {name!r}; correct it, or move it below `meta`"


def _jinja_refusals(model: ModelNode) -> Iterator[str]:
    allowed = set(model.depends_on_moment)
    for macro in model.called_macros:
        if (name := _MOMENT_MACROS.get(macro)) and name not in allowed:
            yield _moment(model, name, model.path)
    for where, text in model.jinja:
        for name in sorted(_moment_names(text) - allowed):
            yield _moment(model, name, where)


def _moment_names(text: str) -> set[str]:
    from jinja2 import Environment

    found = set()
    dotted = False
    for _, kind, value in Environment(autoescape=True).lex(text):
        if kind == "name" and (value in (_MOMENT_ATTRIBUTES if dotted else _MOMENT_JINJA)):
            found.add(value)
        if kind != "whitespace":
            dotted = kind == "operator" and value == "."
    return found


def _sql_refusals(model: ModelNode) -> Iterator[str]:
    if not model.compiled_code:
        return
    try:
        words = words_of(model.compiled_code)
    except ValueError:
        yield f"{model.title}: its SQL cannot be read; look for a string that does not end"
        return
    for name in sorted(set(_moments(words)) - set(model.depends_on_moment)):
        yield _moment(model, name, model.path)
    for name in sorted(set(_foreign_tables(model.compiled_code, words))):
        yield f"{model.title}: reads {name} by name; declare it and use ref() or source()"


def _moments(words: Sequence[Word]) -> Iterator[str]:
    for position, word in enumerate(words):
        following = words[position + 1].text if position + 1 < len(words) else ""
        before = words[position - 1].text if position else ""
        if word.kind == "word" and word.text in _MOMENT_WORDS and before != ".":
            yield word.text
        elif word.kind in ("word", "name") and following == "(":
            if word.text in _MOMENT_CALLS:
                yield word.text
            elif word.text == "age" and _arguments(words[position + 2 :]) == 1:
                yield "age"
        elif word.kind == "text" and word.text.strip().lower() in _MOMENT_TEXTS:
            yield word.text.strip().lower()
        elif word == Word("word", "tablesample"):
            yield "tablesample"


def _arguments(words: Iterable[Word]) -> int:
    depth, commas = 0, 0
    for word in words:
        if word.text == "(":
            depth += 1
        elif word.text == ")":
            if depth == 0:
                break
            depth -= 1
        elif word.text == "," and depth == 0:
            commas += 1
    return commas + 1


def _foreign_tables(code: str, words: Sequence[Word]) -> Iterator[str]:
    import sqlglot
    from sqlglot import exp

    try:
        trees = [tree for tree in sqlglot.parse(code, dialect="postgres") if tree]
    except sqlglot.errors.SqlglotError:
        yield from _foreign_after_from(words)
        return
    for tree in trees:
        if isinstance(tree, exp.Command):
            yield from _foreign_after_from(words)
            continue
        ctes = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier) or table.catalog == PLACEHOLDER_DATABASE:
                continue
            if table.db or table.name.lower() not in ctes:
                yield table.sql(dialect="postgres").partition(" AS ")[0]


def _foreign_after_from(words: Sequence[Word]) -> Iterator[str]:
    # For what the parser does not know: at least every dotted name after FROM or JOIN is looked at.
    for position, word in enumerate(words[:-3]):
        if word.text not in ("from", "join") or word.kind != "word":
            continue
        first, dot, second = words[position + 1 : position + 4]
        if dot.text == "." and first.text != PLACEHOLDER_DATABASE:
            yield f"{first.text}.{second.text}"


def _published_refusals(graph: ProjectGraph, name: str) -> Iterator[str]:
    model = graph.by_name.get(name)
    if model is None:
        yield f"{name}: is to be published, but is not in the pipeline's dbt selection; add it"
        return
    if model.kind == "view" and (resources := _reached(graph.model, name)):
        yield (
            f"{model.title}: is published, but is a bare view over {', '.join(sorted(resources))} "
            "in schema live and would change under its readers; materialize it as 'versioned'"
        )


def _reached(lookup: Callable[[str], ModelNode], name: str) -> set[str]:
    model = lookup(name)
    found = set(model.resources)
    for parent in model.parents:
        if lookup(parent).kind == "view":
            found |= _reached(lookup, parent)
    return found


def _moment(model: ModelNode, name: str, where: str) -> str:
    return (
        f"{model.title}: its result depends on the moment or the session ({name!r} in {where}); "
        f"remove that, or declare it in the config: meta: {{depends_on_moment: [{name}]}}"
    )
