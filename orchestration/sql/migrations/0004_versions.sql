-- What models produced, which of it makes a version, and what the gates said.

create table ops.relations (
    relation_name text primary key check (length(relation_name) <= 63),
    model text not null,
    content_key text not null check (content_key ~ '^[0-9a-f]{64}$'),
    kind text not null check (kind in ('table', 'view')),
    run_id text not null,
    lease_name text not null,
    fence bigint not null,
    state text not null default 'loading' check (state in ('loading', 'adopted', 'abandoned')),
    row_count bigint,
    columns jsonb,
    created_at timestamptz not null default clock_timestamp(),
    adopted_at timestamptz,
    check (state <> 'adopted' or columns is not null),
    check (state <> 'adopted' or kind = 'view' or row_count is not null)
);
create unique index relations_one_per_key on ops.relations (content_key) where state = 'adopted';
comment on table ops.relations is 'Every relation in schema store: one adopted relation per content key.';
comment on column ops.relations.columns is '[{"name", "type"}] in order';

create table ops.versions (
    version_id text primary key,
    pipeline text not null,
    manifest_id text not null references ops.manifests,
    run_id text not null,
    code_id text not null,
    code_commit text,
    code_dirty boolean,
    degraded boolean not null default false,
    state text not null default 'candidate'
        check (state in ('candidate', 'passed', 'held', 'published', 'retired', 'rejected')),
    created_at timestamptz not null default clock_timestamp(),
    published_at timestamptz
);
create index versions_newest on ops.versions (pipeline, created_at desc);
create unique index versions_one_published on ops.versions (pipeline) where state = 'published';
comment on column ops.versions.state is
    'candidate -> passed | held -> published -> retired -> published (rollback); held -> rejected';

create table ops.version_models (
    version_id text not null references ops.versions on delete cascade,
    model text not null,
    relation_name text not null references ops.relations,
    content_key text not null,
    published boolean not null,
    parents text[] not null,
    resources text[] not null,
    primary key (version_id, model)
);
create index version_models_relation on ops.version_models (relation_name);
comment on column ops.version_models.resources is 'resources this model reads directly through schema live';

create table ops.verdicts (
    verdict_id bigint generated always as identity primary key,
    pipeline text not null,
    run_id text not null,
    stage text not null check (stage in ('extract', 'validate', 'gate')),
    subject text not null,
    suite text not null,
    suite_hash text not null,
    verdict text not null check (verdict in ('passed', 'warned', 'failed', 'error')),
    results jsonb not null,
    duration_s double precision,
    evaluated_at timestamptz not null default clock_timestamp()
);
create index verdicts_by_run on ops.verdicts (run_id, verdict_id);
comment on column ops.verdicts.subject is 'the version or the manifest part that was judged';

-- Sealing hands a finished table to a role that nobody can log in as: immutable by privilege.
create function ops.seal_relation(p_relation text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_kind "char";
begin
    select c.relkind into v_kind from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'store' and c.relname = p_relation and c.relkind in ('r', 'v');
    if v_kind is null then
        raise exception 'store.% does not exist', p_relation using errcode = 'undefined_table';
    end if;
    execute format('alter %s store.%I owner to sluice_store',
        case v_kind when 'r' then 'table' else 'view' end, p_relation);
    execute format('revoke all on store.%I from public', p_relation);
    execute format('grant select on store.%I to sluice_transformer, sluice_gate, sluice_publisher, '
        'sluice_runner, sluice_analyst', p_relation);
end
$$;
comment on function ops.seal_relation is 'Makes a relation in schema store immutable; idempotent.';
