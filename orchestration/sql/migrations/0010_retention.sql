-- What is kept for long, what was let go, and the only ways in which anything is dropped.
-- Each function drops only what nothing that is kept refers to, however it was called.

-- A version that somebody reads for long; it keeps its schema v_<id>.
create table ops.version_pins (
    version_id text primary key references ops.versions,
    reason text not null check (reason <> ''),
    actor text not null default session_user,
    pinned_at timestamptz not null default clock_timestamp()
);
comment on table ops.version_pins is 'Versions that retention keeps until somebody unpins them.';

create table ops.dropped_versions (
    version_id text primary key,
    pipeline text not null,
    manifest_id text not null,
    run_id text not null,
    code_id text not null,
    code_commit text,
    state text not null,
    newest jsonb not null,
    created_at timestamptz not null,
    published_at timestamptz,
    dropped_at timestamptz not null default clock_timestamp()
);
comment on table ops.dropped_versions is
    'Versions that retention dropped; one that is built again stands in ops.versions too.';
comment on column ops.dropped_versions.state is 'what it was when it was dropped';
comment on column ops.dropped_versions.newest is 'resource -> newest window that it was built from';

-- A publication without a run is somebody's decision, and written down as one, in the same transaction.
create function ops.record_publication_by_hand() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into ops.operator_actions (action, target, reason, actor)
    values ('publish', new.version_id, new.reason, new.actor);
    return null;
end
$$;
revoke execute on function ops.record_publication_by_hand() from public;
create trigger record_publication_by_hand after insert on ops.publications
    for each row when (new.kind = 'publish' and new.run_id is null and new.reason <> '')
    execute function ops.record_publication_by_hand();

-- What was published when outlives the versions.
alter table ops.publications
    drop constraint publications_version_id_fkey,
    drop constraint publications_previous_version_id_fkey;

alter table ops.artifacts
    add column emptied_at timestamptz,
    drop constraint artifacts_state_check,
    add constraint artifacts_state_check check (state in ('loading', 'adopted', 'abandoned', 'dropped'));
comment on column ops.artifacts.state is
    'loading -> adopted | abandoned, by compare-and-set under the fence; adopted -> dropped, when '
    'nothing needs its rows any more: they go next, and the row itself once nothing tells of it';
comment on column ops.artifacts.emptied_at is 'when its rows in staging were deleted';

create view ops.open_runs as
select r.run_id, r.pipeline, r.version_id
from ops.runs as r
where r.status in ('accepted', 'running')
    or exists (
        select from ops.leases as l
        where l.name = 'run/' || r.run_id and l.expires_at > clock_timestamp()
    );
comment on view ops.open_runs is 'Runs that have not ended, and ended ones that somebody drives again.';

create function ops.pipeline_of_build_lease(p_lease text, p_fence bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not starts_with(p_lease, 'build/') then
        raise exception '% is not the lease of a pipeline''s builds', p_lease
            using errcode = 'invalid_parameter_value';
    end if;
    perform ops.assert_fence(p_lease, p_fence);
    return substr(p_lease, length('build/') + 1);
end
$$;
comment on function ops.pipeline_of_build_lease is
    'The pipeline that nobody else builds or publishes until this transaction ends; raises SL001.';

-- Views one by one and never by cascade: what people put on top of them is theirs.
create function ops.drop_version_views(p_version_id text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_name text;
begin
    if p_version_id !~ '^v_[0-9a-f]{16}$' then
        raise exception 'not a version id: %', p_version_id using errcode = 'invalid_parameter_value';
    end if;
    for v_name in
        select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = p_version_id and c.relkind = 'v' order by c.oid desc
    loop
        execute format('drop view %I.%I', p_version_id, v_name);
    end loop;
    execute format('drop schema if exists %I', p_version_id);
end
$$;
comment on function ops.drop_version_views is 'Drops schema v_<id>; refuses while anything stands on it.';

create or replace function ops.drop_version_schema(p_version_id text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_version_id !~ '^v_[0-9a-f]{16}$' then
        raise exception 'not a version id: %', p_version_id using errcode = 'invalid_parameter_value';
    end if;
    if exists (select from ops.version_pins p where p.version_id = p_version_id) then
        return;
    end if;
    execute format('drop schema if exists %I cascade', p_version_id);
end
$$;
comment on function ops.drop_version_schema is 'Drops a candidate''s schema; that of a pinned version stays.';

create function ops.drop_unused_version_schema(p_lease text, p_fence bigint, p_version_id text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
begin
    if exists (
        select from ops.versions v
        where v.version_id = p_version_id
            and (
                v.pipeline <> v_pipeline
                or v.state in ('candidate', 'held', 'rejected')
                or exists (select from ops.version_pins p where p.version_id = v.version_id)
            )
    ) then
        raise exception 'schema % is still needed', p_version_id using errcode = 'object_in_use';
    end if;
    perform ops.drop_version_views(p_version_id);
end
$$;
comment on function ops.drop_unused_version_schema is
    'Drops the schema of a version that is neither under its gate nor pinned, or not there; raises SL001.';

create function ops.drop_version(p_lease text, p_fence bigint, p_version_id text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
    v ops.versions;
begin
    select * into v from ops.versions
    where version_id = p_version_id and pipeline = v_pipeline for update;
    if not found then
        return false;
    end if;
    if v.state in ('published', 'held')
        or exists (select from ops.publication_pointer p where p.version_id = p_version_id)
        or exists (select from ops.version_pins p where p.version_id = p_version_id)
        or exists (
            select from ops.open_runs r where r.version_id = p_version_id or r.run_id = v.run_id
        )
    then
        raise exception 'version % is still needed', p_version_id using errcode = 'object_in_use';
    end if;
    perform ops.drop_version_views(p_version_id);
    insert into ops.dropped_versions as d (version_id, pipeline, manifest_id, run_id, code_id,
        code_commit, state, newest, created_at, published_at)
    select v.version_id, v.pipeline, v.manifest_id, v.run_id, v.code_id, v.code_commit, v.state,
        (
            select coalesce(jsonb_object_agg(n.resource, n.window_name), '{}')
            from (
                select m.resource, max(m.window_name) as window_name from ops.manifest_artifacts m
                where m.manifest_id = v.manifest_id group by m.resource
            ) as n
        ),
        v.created_at, v.published_at
    on conflict (version_id) do update
        set run_id = excluded.run_id, code_id = excluded.code_id, code_commit = excluded.code_commit,
            state = excluded.state, created_at = excluded.created_at,
            published_at = coalesce(excluded.published_at, d.published_at),
            dropped_at = clock_timestamp();
    delete from ops.versions where version_id = p_version_id;
    return true;
end
$$;
comment on function ops.drop_version is
    'Forgets a version and its schema; raises SL001, or object_in_use when it is needed.';

create function ops.drop_manifests(p_lease text, p_fence bigint, p_manifests text[])
returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
begin
    return query
    delete from ops.manifests m
    where m.manifest_id = any(p_manifests)
        and m.pipeline = v_pipeline
        and not exists (select from ops.versions v where v.manifest_id = m.manifest_id)
        and not exists (select from ops.open_runs r where r.run_id = m.run_id)
    returning m.manifest_id;
end
$$;
comment on function ops.drop_manifests is 'Those that no version and no open run has; raises SL001.';

create function ops.drop_artifacts(p_lease text, p_fence bigint, p_artifacts text[])
returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
begin
    return query
    update ops.artifacts a set state = 'dropped', acceptance = 'pending'
    where a.artifact_id = any(p_artifacts)
        and a.pipeline = v_pipeline
        and a.state = 'adopted'
        and not exists (select from ops.manifest_artifacts m where m.artifact_id = a.artifact_id)
        and not exists (
            select from ops.open_runs r join ops.run_partitions p using (run_id)
            where r.pipeline = a.pipeline and p.resource = a.resource
                and p.window_name = a.window_name and p.revision = a.revision
        )
        and exists (
            select from ops.artifacts newer
            where newer.pipeline = a.pipeline and newer.resource = a.resource
                and newer.window_name = a.window_name and newer.revision > a.revision
                and newer.state = 'adopted'
        )
        and (
            a.acceptance <> 'accepted'
            or exists (
                select from ops.artifacts newer
                where newer.pipeline = a.pipeline and newer.resource = a.resource
                    and newer.window_name = a.window_name and newer.revision > a.revision
                    and newer.acceptance = 'accepted'
            )
        )
    returning a.artifact_id;
end
$$;
comment on function ops.drop_artifacts is
    'adopted -> dropped, for what is superseded and in no manifest; raises SL001.';

create function ops.forget_artifacts(p_artifacts text[]) returns setof text
language sql security definer set search_path = pg_catalog, pg_temp as $$
    delete from ops.artifacts a
    where a.artifact_id = any(p_artifacts)
        and (
            a.state = 'dropped'
            or a.state = 'abandoned' and a.created_at < clock_timestamp() - interval '7 days'
        )
        and not exists (select from quarantine.records q where q.artifact_id = a.artifact_id)
        and not exists (select from quarantine.partitions q where q.artifact_id = a.artifact_id)
        and not exists (select from ops.run_partitions p where p.artifact_id = a.artifact_id)
    returning a.artifact_id
$$;
comment on function ops.forget_artifacts is
    'Deletes the rows of artifacts whose data went before, once no run and no quarantine tells of them.';

create function ops.drop_runs(p_lease text, p_fence bigint, p_runs text[]) returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
    v_run text;
begin
    for v_run in select r from unnest(p_runs) as r order by r loop
        -- Nobody drives it until this commits, and then there is nothing to drive.
        continue when ops.acquire_lease('run/' || v_run, 'retention', interval '1 minute') is null;
        delete from ops.runs r
        where r.run_id = v_run
            and r.pipeline = v_pipeline
            and r.status in ('finished', 'failed', 'cancelled')
            and not exists (select from ops.versions v where v.run_id = r.run_id);
        if found then
            delete from ops.attempts a where a.run_id = v_run;
            delete from ops.verdicts d
            where d.run_id = v_run
                and not exists (select from ops.versions v where v.version_id = d.subject);
            delete from ops.outbox o where o.run_id = v_run and o.delivered_at is not null;
            return next v_run;
        end if;
        delete from ops.leases l where l.name = 'run/' || v_run;
    end loop;
end
$$;
comment on function ops.drop_runs is
    'Forgets ended runs that made no version and that nobody drives; raises SL001.';

create function ops.drop_checkpoints(p_lease text, p_fence bigint, p_keys text[])
returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
begin
    return query
    delete from ops.checkpoints c
    where c.idempotency_key = any(p_keys)
        and c.pipeline = v_pipeline
        and not exists (select from ops.runs r where r.run_id = c.run_id)
        and not exists (
            select from ops.artifacts a where a.artifact_id = c.output_ref and a.state = 'adopted'
        )
        and not exists (
            select from ops.versions v where v.version_id in (c.input_ref, c.output_ref)
        )
    returning c.idempotency_key;
end
$$;
comment on function ops.drop_checkpoints is
    'Forgets units of work of forgotten runs that came to nothing that is kept; raises SL001.';

create function ops.drop_quarantine(p_records bigint[], p_partitions bigint[]) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with records as (
        delete from quarantine.records q
        where q.record_id = any(p_records) and q.decision <> 'held' returning 1
    ), partitions as (
        delete from quarantine.partitions q
        where q.partition_id = any(p_partitions) and q.decision <> 'held' returning 1
    )
    select (select count(*) from records) + (select count(*) from partitions)
$$;
comment on function ops.drop_quarantine is 'Deletes what was decided on; what is held stays.';

create function ops.forget_ended(p_before timestamptz) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with leases as (
        -- Fences come from a sequence, so a lease that is taken anew has a larger one all the same.
        delete from ops.leases l
        where l.expires_at <= clock_timestamp()
            and (
                starts_with(l.name, 'partition/')
                or starts_with(l.name, 'run/')
                and not exists (select from ops.runs r where l.name = 'run/' || r.run_id)
            )
        returning 1
    ), verdicts as (
        delete from ops.verdicts d
        where d.evaluated_at < p_before
            and not exists (select from ops.runs r where r.run_id = d.run_id)
            and not exists (select from ops.versions v where v.version_id = d.subject)
        returning 1
    )
    select (select count(*) from leases) + (select count(*) from verdicts)
$$;
comment on function ops.forget_ended is
    'Deletes leases that ran out and belong to nothing, and old verdicts of forgotten runs on what is gone.';

create function ops.forget_dropped_versions(p_pipeline text, p_before timestamptz) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with forgotten as (
        delete from ops.dropped_versions d
        where d.pipeline = p_pipeline
            and d.dropped_at < p_before
            and not exists (select from ops.publications p where p.version_id = d.version_id)
        returning 1
    )
    select count(*) from forgotten
$$;
comment on function ops.forget_dropped_versions is 'Candidates that were dropped long ago; publications stay.';

-- The relation and its row go together or not at all. Whoever records a version or a view over this
-- relation meanwhile waits for its row: either the relation stays, or they are told that it is gone.
create function ops.drop_relation(p_leases text[], p_fences bigint[], p_relation text)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_object record;
begin
    perform ops.assert_fence(l.name, l.fence) from unnest(p_leases, p_fences) as l (name, fence);
    if exists (
        select from ops.leases l
        where starts_with(l.name, 'build/') and l.expires_at > clock_timestamp()
            and l.name <> all (p_leases)
    ) then
        raise exception 'somebody builds for another pipeline' using errcode = 'object_in_use';
    end if;
    perform from ops.relations r
    where r.relation_name = p_relation and r.state = 'adopted' for update;
    if not found then
        return false;
    end if;
    if exists (select from ops.version_models m where m.relation_name = p_relation)
        or exists (select from ops.slot_views s where s.relation_name = p_relation)
        or exists (select from ops.view_segments s where s.segment_name = p_relation)
        or exists (
            select from ops.open_runs o join ops.relations r using (run_id)
            where r.relation_name = p_relation
        )
    then
        raise exception 'store.% is still needed', p_relation using errcode = 'object_in_use';
    end if;
    delete from ops.relations r where r.relation_name = p_relation;
    for v_object in
        select c.relname, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'store' and c.relkind in ('r', 'v')
            and c.relname in (p_relation, p_relation || '__live')
        order by c.oid desc
    loop
        execute format('drop %s store.%I',
            case v_object.relkind when 'r' then 'table' else 'view' end, v_object.relname);
    end loop;
    return true;
end
$$;
comment on function ops.drop_relation is
    'Drops a relation of the store under the build lease of every pipeline that builds; raises SL001, '
    'or object_in_use when a version, a slot, a view or an open run needs it.';

create function ops.forget_relations(p_relations text[]) returns setof text
language sql security definer set search_path = pg_catalog, pg_temp as $$
    delete from ops.relations r
    where r.relation_name = any(p_relations)
        and r.state = 'abandoned'
        and r.created_at < clock_timestamp() - interval '7 days'
        and not exists (
            select from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'store' and c.relname in (r.relation_name, r.relation_name || '__dbt_tmp')
        )
    returning r.relation_name
$$;
comment on function ops.forget_relations is 'Deletes the rows of builds that were given up and swept.';

-- The extractor deletes from staging, and notes it in the same transaction.
grant update (emptied_at) on ops.artifacts to sluice_extractor;

-- It drops as the owner of the store, who can drop nothing else.
grant delete on ops.relations to sluice_store;
grant select on ops.open_runs to sluice_store;
grant create on schema ops to sluice_store;
alter function ops.drop_relation(text[], bigint[], text) owner to sluice_store;
revoke create on schema ops from sluice_store;

revoke execute on function
    ops.pipeline_of_build_lease(text, bigint), ops.drop_version_views(text),
    ops.drop_unused_version_schema(text, bigint, text), ops.drop_version(text, bigint, text),
    ops.drop_manifests(text, bigint, text[]), ops.drop_artifacts(text, bigint, text[]),
    ops.forget_artifacts(text[]), ops.drop_runs(text, bigint, text[]),
    ops.drop_checkpoints(text, bigint, text[]), ops.drop_quarantine(bigint[], bigint[]),
    ops.forget_ended(timestamptz), ops.forget_dropped_versions(text, timestamptz),
    ops.drop_relation(text[], bigint[], text), ops.forget_relations(text[])
from public;
grant execute on function
    ops.drop_unused_version_schema(text, bigint, text), ops.drop_version(text, bigint, text),
    ops.drop_manifests(text, bigint, text[]), ops.drop_artifacts(text, bigint, text[]),
    ops.forget_artifacts(text[]), ops.drop_runs(text, bigint, text[]),
    ops.drop_checkpoints(text, bigint, text[]), ops.drop_quarantine(bigint[], bigint[]),
    ops.forget_ended(timestamptz), ops.forget_dropped_versions(text, timestamptz),
    ops.drop_relation(text[], bigint[], text), ops.forget_relations(text[])
to sluice_runner;

grant select on ops.open_runs to sluice_runner;
grant select on ops.version_pins, ops.dropped_versions to
    sluice_runner, sluice_transformer, sluice_gate, sluice_publisher, sluice_reviewer, sluice_analyst;
grant insert, delete on ops.version_pins to sluice_runner;

-- Whoever needs a version for long reads it in its own schema.
create function ops.open_version_schema(p_version_id text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from ops.version_pins p where p.version_id = p_version_id) then
        raise exception 'version % is not pinned', p_version_id
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    execute format('grant usage on schema %I to sluice_reader, sluice_reviewer', p_version_id);
end
$$;
comment on function ops.open_version_schema is 'Lets people enter the schema of a pinned version.';
revoke execute on function ops.open_version_schema(text) from public;
grant execute on function ops.open_version_schema(text) to sluice_transformer;
