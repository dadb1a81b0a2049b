-- Which version readers see, and how it came to that.

create table ops.publications (
    publication_id bigint generated always as identity primary key,
    pipeline text not null,
    version_id text not null references ops.versions,
    previous_version_id text references ops.versions,
    kind text not null check (kind in ('publish', 'rollback')),
    slot text not null check (slot in ('a', 'b')),
    run_id text,
    reason text,
    actor text not null default session_user,
    published_at timestamptz not null default clock_timestamp(),
    check (kind <> 'rollback' or reason <> '')
);
create index publications_newest on ops.publications (pipeline, publication_id desc);

create table ops.publication_pointer (
    pipeline text primary key,
    active_slot text not null check (active_slot in ('a', 'b')),
    version_id text not null references ops.versions,
    publication_id bigint not null references ops.publications,
    flipped_by xid8 not null default pg_current_xact_id()
);
comment on table ops.publication_pointer is 'One row per pipeline: what every published view shows.';
comment on column ops.publication_pointer.flipped_by is
    'a slot may be touched only when no session can still see an older pointer';

create table ops.slot_views (
    pipeline text not null,
    slot text not null check (slot in ('a', 'b')),
    model text not null,
    version_id text not null,
    relation_name text not null,
    primary key (slot, model)
);
comment on table ops.slot_views is
    'What each slot view was last pointed at; a relation that stands here must not be dropped.';
comment on column ops.slot_views.version_id is
    'the version it was pointed at for; later versions with the same relation leave it as it is';

create table ops.published_models (
    model text primary key,
    pipeline text not null,
    columns jsonb not null
);
comment on table ops.published_models is 'A published model belongs to one pipeline.';
comment on column ops.published_models.columns is
    '[{"name", "type"}] in the order of the published view; only ever appended to';

-- Published views call this when they may not answer; its argument comes from a sub-select, so that
-- no planner can run it, and immutable, so that the condition around it stays a one-time filter.
create function ops.refuse_read(p_model text, p_relation text) returns boolean
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    if p_relation is null then
        raise exception 'analytics.%: nothing is published yet', p_model
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Run the pipeline that owns it.';
    elsif p_relation = '' then
        raise exception 'analytics.% is not part of the published version', p_model
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Publish a version that has it.';
    end if;
    raise exception 'analytics.%: another version was published while this was being read', p_model
        using errcode = 'serialization_failure', hint = 'Run the query (or its transaction) again.';
end
$$;
comment on function ops.refuse_read is
    'Always raises: null = nothing published, empty = model not in the version, else = version moved.';
