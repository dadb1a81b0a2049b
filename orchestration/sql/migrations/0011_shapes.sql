-- Published models may change their shape, and analysts may build partitioned models on them.

create schema deferred;
create schema former;
comment on schema deferred is
    'Published partitioned models with their column _partition: what dbt reads for models it does not build.';
comment on schema former is
    'Published views as they were before a change of shape, for as long as somebody else''s views read them.';

alter table ops.published_models
    add column shape integer not null default 1 check (shape >= 1),
    add column renamed jsonb not null default '{}';
comment on column ops.published_models.columns is
    '[{"name", "type"}] in the order of the published view; only appended to while the shape is the same';
comment on column ops.published_models.shape is
    'grows with every change that takes something from readers; the slot views of each have names of their own';
comment on column ops.published_models.renamed is
    'column -> its name in relations that were built before it was renamed';

alter table ops.slot_views
    add column shape integer not null default 1,
    drop constraint slot_views_pkey,
    add primary key (slot, model, shape);

grant usage, create on schema deferred, former to sluice_publisher;
grant usage on schema deferred to sluice_transformer, sluice_analyst;
grant usage on schema former to sluice_reader, sluice_analyst, sluice_reviewer, sluice_runner;

-- The flip in one round trip: under the lock all checks that can change, then all that it writes, or nothing.
create function ops.turn_pointer(
    p_pipeline text, p_version_id text, p_expected text, p_slot text, p_kind text,
    p_seen_publication bigint, p_seen_flip bigint, p_lease text, p_fence bigint,
    p_publication_id bigint, p_run_id text, p_reason text, p_actor text, p_owner text, p_payload jsonb,
    out standing jsonb, out unprepared text[], out publication_id bigint
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    pointer record;
    turned boolean;
begin
    select p.active_slot, p.version_id, p.publication_id, p.flipped_by::text::bigint as flipped_by
    into pointer
    from ops.publication_pointer p where p.pipeline = p_pipeline for update;
    -- A statement of its own sees what the one before us wrote while we waited.
    perform ops.assert_fence(p_lease, p_fence);
    if pointer.version_id is not null then
        standing := to_jsonb(pointer);
    end if;
    if pointer.publication_id is distinct from p_seen_publication
        or pointer.flipped_by is distinct from p_seen_flip
    then
        return;
    end if;
    -- A rollback leaves out models that were taken out of publication since.
    unprepared := array(
        select m.model
        from ops.version_models m
        left join ops.published_models p on p.model = m.model and p.pipeline = p_pipeline
        left join ops.slot_views s
            on s.slot = p_slot and s.model = m.model and s.shape = p.shape and s.pipeline = p.pipeline
        where m.version_id = p_version_id and m.published
            and (p_kind = 'publish' or p.model is not null)
            and s.relation_name is distinct from m.relation_name
        order by m.model
    );
    if unprepared <> '{}' then
        return;
    end if;
    insert into ops.publications as b
        (publication_id, pipeline, version_id, previous_version_id, kind, slot, run_id, reason, actor)
    overriding system value
    values (p_publication_id, p_pipeline, p_version_id, p_expected, p_kind, p_slot, p_run_id, p_reason,
        coalesce(p_actor, session_user));
    insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload)
    values ('published:' || p_publication_id, p_pipeline, p_run_id,
        case p_kind when 'publish' then 'published' else 'rolled_back' end, p_owner,
        p_payload || jsonb_build_object('publication_id', p_publication_id));
    if p_kind = 'rollback' then
        insert into ops.operator_actions (action, target, reason, actor)
        values ('rollback', p_version_id, p_reason, coalesce(p_actor, session_user));
    end if;
    insert into ops.publication_pointer as p (pipeline, active_slot, version_id, publication_id, flipped_by)
    values (p_pipeline, p_slot, p_version_id, p_publication_id, pg_current_xact_id())
    on conflict (pipeline) do update
        set active_slot = excluded.active_slot, version_id = excluded.version_id,
            publication_id = excluded.publication_id, flipped_by = excluded.flipped_by
        where p.version_id is not distinct from p_expected
    returning true into turned;
    -- One version of a pipeline is published: the one goes before the other comes.
    update ops.versions v set state = 'retired' where v.pipeline = p_pipeline and v.state = 'published';
    update ops.versions v set state = 'published', published_at = clock_timestamp()
    where v.version_id = p_version_id and v.pipeline = p_pipeline
        and v.state in ('passed', 'published', 'retired')
    returning p_publication_id into publication_id;
    if turned is null or publication_id is null then
        raise exception 'another version was published, or this one was judged again' using errcode = 'SL002';
    end if;
end
$$;
comment on function ops.turn_pointer is
    'Turns a pipeline''s pointer, or writes nothing and says what stood in the way. Raises SL001, and SL002 '
    'when something moved after all.';

-- The first time, a session plans and loads all this; better before the pointer is locked than after.
create function ops.rehearse_turn(
    p_pipeline text, p_version_id text, p_slot text, p_lease text, p_fence bigint, p_publication_id bigint
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    -- No pipeline and no publication has such a name.
    perform ops.turn_pointer(p_pipeline || ' (rehearsal)', p_version_id, null, p_slot, 'rollback',
        null, null, p_lease, p_fence, -p_publication_id, null, 'rehearsal', null, '', '{}');
exception
    -- It gets as far as the version, which is of another pipeline.
    when sqlstate 'SL002' then null;
end
$$;
comment on function ops.rehearse_turn is 'Does all that turn_pointer does, and takes it back. Raises SL001.';

revoke execute on function
    ops.turn_pointer(text, text, text, text, text, bigint, bigint, text, bigint, bigint, text, text, text,
        text, jsonb),
    ops.rehearse_turn(text, text, text, text, bigint, bigint)
from public;
grant execute on function
    ops.turn_pointer(text, text, text, text, text, bigint, bigint, text, bigint, bigint, text, text, text,
        text, jsonb),
    ops.rehearse_turn(text, text, text, text, bigint, bigint)
to sluice_publisher;
-- It takes the number of a publication before it locks the pointer.
grant usage on sequence ops.publications_publication_id_seq to sluice_publisher;

-- Only what people run is ended, and each time is kept.
create function ops.end_reader(p_pid integer, p_reason text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_who text;
begin
    select format('pid %s, user %s, application %L', s.pid, r.rolname, s.application_name) into v_who
    from pg_stat_activity s
    join pg_roles r on r.oid = s.usesysid
    join pg_database d on d.oid = s.datid
    where s.pid = p_pid and d.datname = current_database() and s.pid <> pg_backend_pid()
        and not r.rolsuper and r.oid <> d.datdba
        and r.rolname <> all (array['sluice_runner', 'sluice_extractor', 'sluice_transformer', 'sluice_gate',
            'sluice_publisher', 'sluice_store']);
    if v_who is null or not pg_terminate_backend(p_pid) then
        return false;
    end if;
    insert into ops.operator_actions (action, target, reason) values ('end_reader', v_who, p_reason);
    return true;
end
$$;
comment on function ops.end_reader is
    'Ends a session of this database, unless it is one of Sluice''s own, of the owner or of a superuser.';
revoke execute on function ops.end_reader(integer, text) from public;
grant execute on function ops.end_reader(integer, text) to sluice_publisher;
