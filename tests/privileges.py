"""Who may do what in a warehouse, read from the catalogue: the lines of docs/roles.txt."""

import re
from collections import defaultdict
from collections.abc import Iterable

import psycopg

_ROLES = """
select rolname, 'role', concat_ws(', ',
    case when rolcanlogin then 'logs in' else 'cannot log in' end,
    case when rolsuper then 'superuser' end,
    case when rolcreaterole then 'makes roles' end,
    case when rolcreatedb then 'makes databases' end,
    case when rolreplication then 'replicates' end,
    case when rolbypassrls then 'bypasses row security' end,
    array_to_string(rolconfig, ', '))
from pg_roles where rolname like 'sluice\\_%'
"""
_MEMBERSHIPS = """
select member::regrole::text, 'member', 'of ' || roleid::regrole
from pg_auth_members where member::regrole::text like 'sluice\\_%'
"""
# Rights that nobody granted, such as those of everybody on a new function, are rights as well.
_RIGHTS = """
with things as (
    select 'database' as name, datacl as acl, 'd' as code, datdba as owner
    from pg_database where datname = current_database()
    union all
    select 'schema ' || nspname, nspacl, 'n', nspowner from pg_namespace
    union all
    select relnamespace::regnamespace || '.' || relname, relacl,
        case relkind when 'S' then 's' else 'r' end, relowner
    from pg_class where relkind in ('r', 'v', 'm', 'p', 'f', 'S')
    union all
    select relnamespace::regnamespace || '.' || relname || '|' || attname, attacl, 'c', relowner
    from pg_attribute join pg_class as c on c.oid = attrelid where attacl is not null
    union all
    select pronamespace::regnamespace || '.' || proname || '('
        || array_to_string(proargtypes::regtype[], ', ') || ')'
        || case when prosecdef then ' as ' || proowner::regrole else '' end,
        proacl, 'f', proowner
    from pg_proc
    union all
    select 'later ' || case defaclobjtype when 'S' then 'sequences' when 'f' then 'functions'
            when 'r' then 'tables' else defaclobjtype::text end || ' of ' || defaclrole::regrole
        || coalesce(' in schema ' || nullif(defaclnamespace, 0)::regnamespace, ''),
        defaclacl, 'r', defaclrole
    from pg_default_acl
),
named as (select * from things where name !~ '^(schema )?(pg_|information_schema)')
select case grantee when 0 then 'public' else grantee::regrole::text end, name,
    lower(privilege_type) || case when is_grantable then ' and pass it on' else '' end
from named, aclexplode(coalesce(acl, acldefault(code::"char", owner)))
where grantee <> owner
union all
select owner::regrole::text, name, 'own' from named
where owner::regrole::text not in ('sluice_owner', 'pg_database_owner') and name !~ '[(|]'
"""
# What is made again and again under names of its own, and what each source and pipeline adds.
_KINDS = [
    (re.compile(r"\bv_[0-9a-f]{16}\b"), "v_<id>"),
    (re.compile(r"\bdev_\w+"), "dev_<name>"),
    (re.compile(r"\b(live)\.\w+"), r"\1.<resource>"),
    (re.compile(r"\b(staging)\.[a-z]\w+"), r"\1.<resource>"),
    (re.compile(r"\b(store)\.\w+"), r"\1.<relation>"),
    (re.compile(r"\b(v_<id>|slot_a|slot_b|analytics|deferred|former)\.\w+"), r"\1.<model>"),
]


Right = tuple[str, str, str]


def read_rights(connection: psycopg.Connection) -> set[Right]:
    """(role, thing, what it may do); the owner's rights on what it owns are left out."""
    return {
        (role, general(thing), right)
        for statement in (_ROLES, _MEMBERSHIPS, _RIGHTS)
        for role, thing, right in connection.execute(statement.encode()).fetchall()
    }


def listed(rights: Iterable[Right]) -> list[str]:
    """A line for each role and thing; rights on single columns on lines of their own."""
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for role, thing, right in rights:
        relation, of_column, column = thing.partition("|")
        if of_column:
            found[role, relation, right].add(column)
        else:
            found[role, thing, ""].add(right)
    lines = []
    for (role, thing, right), items in sorted(found.items(), key=_place):
        text = ", ".join(sorted(items))
        lines.append(f"{role:19}{thing}: " + (f"{right} ({text})" if right else text))
    return lines


def _place(item: tuple[Right, set[str]]) -> tuple[str, int, Right]:
    role, thing, _ = item[0]
    return role, {"role": 0, "member": 1, "database": 2}.get(thing, 3), item[0]


def general(thing: str) -> str:
    """The thing, or the kind of thing that it is one of."""
    for pattern, name in _KINDS:
        thing = pattern.sub(name, thing)
    return thing
