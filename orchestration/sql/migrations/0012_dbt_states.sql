-- What the code behind a version says of itself: dbt's manifest, what each definition key is made of.

create table ops.dbt_states (
    state_id text primary key check (state_id ~ '^[0-9a-f]{64}$'),
    manifest bytea not null,
    models jsonb not null,
    recorded_at timestamptz not null default clock_timestamp()
);
comment on table ops.dbt_states is 'One state of a dbt project, by content; many versions share one.';
comment on column ops.dbt_states.manifest is
    'dbt''s manifest.json without moments and relation names, compressed with zlib';
comment on column ops.dbt_states.models is
    'model -> {definition_key, parts, key, key_source, sensitive}; parts are digests';

create table ops.version_states (
    version_id text not null references ops.versions on delete cascade,
    state_id text not null references ops.dbt_states,
    recorded_at timestamptz not null default clock_timestamp(),
    primary key (version_id, state_id)
);
create index version_states_state on ops.version_states (state_id);
comment on table ops.version_states is
    'The states of the project that make a version; an edit of a description makes another. The last counts.';

-- A state goes with the last version that it makes.
create function ops.forget_dbt_states() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    delete from ops.dbt_states s
    where s.state_id in (select g.state_id from gone as g)
        and not exists (select from ops.version_states v where v.state_id = s.state_id);
    return null;
end
$$;
revoke execute on function ops.forget_dbt_states() from public;
create trigger forget_dbt_states after delete on ops.version_states
    referencing old table as gone for each statement execute function ops.forget_dbt_states();

grant select on ops.dbt_states, ops.version_states to
    sluice_runner, sluice_reviewer, sluice_transformer, sluice_gate, sluice_analyst;
grant insert on ops.dbt_states, ops.version_states to sluice_transformer;
grant update (recorded_at) on ops.dbt_states, ops.version_states to sluice_transformer;

-- A preview judges as the published version was judged, and shows what was said of it.
grant select on ops.verdicts to sluice_analyst;
grant select (run_id, as_of) on ops.runs to sluice_analyst;

-- It builds in a schema of the analyst's own; the inputs of some partitions are temporary views.
create function ops.create_preview_schema(p_schema text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_schema !~ '^dev_[a-z0-9_]{1,40}$' then
        raise exception 'not the name of a preview: %', p_schema using errcode = 'invalid_parameter_value';
    end if;
    execute format('create schema if not exists %I authorization sluice_analyst', p_schema);
end
$$;
comment on function ops.create_preview_schema is 'Makes a schema that analysts may fill and drop; idempotent.';
revoke execute on function ops.create_preview_schema(text) from public;
grant execute on function ops.create_preview_schema(text) to sluice_analyst;

do $$
begin
    execute format('grant temporary on database %I to sluice_analyst', current_database());
end
$$;
