-- Least privilege: what each stage's role may do, and nothing else.

grant usage on schema ops to
    sluice_runner, sluice_extractor, sluice_transformer, sluice_gate, sluice_publisher,
    sluice_reviewer, sluice_analyst, sluice_store;
revoke execute on all functions in schema ops from public;
grant execute on function ops.assert_fence(text, bigint) to
    sluice_runner, sluice_extractor, sluice_transformer, sluice_publisher;
grant execute on function ops.acquire_lease(text, text, interval),
    ops.extend_lease(text, bigint, interval), ops.release_lease(text, bigint) to sluice_runner;
-- whoever reads a published view runs it
grant execute on function ops.refuse_read(text, text) to public;

-- runner: runs, checkpoints, verdicts; sees everything an operator sees
grant select on all tables in schema ops to sluice_runner, sluice_reviewer;
grant select on all tables in schema quarantine to sluice_runner, sluice_reviewer, sluice_extractor;
grant usage on schema quarantine to sluice_runner, sluice_reviewer, sluice_extractor;
grant insert, update on ops.runs, ops.run_partitions, ops.checkpoints, ops.attempts,
    ops.run_stages to sluice_runner;
grant insert on ops.manifests, ops.manifest_artifacts, ops.verdicts, ops.outbox,
    ops.operator_actions to sluice_runner;
grant update (delivered_at) on ops.outbox to sluice_runner;
grant update (acceptance, acceptance_reason) on ops.artifacts to sluice_runner;
grant update (state) on ops.versions to sluice_runner;
grant insert on quarantine.partitions to sluice_runner;

-- extractor: loads, adopts, quarantines
grant select, insert on ops.artifacts to sluice_extractor;
grant update (state, fetched, loaded, quarantined, checksum, schema_version, unexpected_fields,
    fetched_at, adopted_at) on ops.artifacts to sluice_extractor;
grant insert on quarantine.records to sluice_extractor;
grant usage on schema staging to sluice_extractor;

-- transformer: reads live, builds in store until sealed
grant usage on schema live to sluice_transformer, sluice_gate, sluice_analyst, sluice_store;
grant usage, create on schema store to sluice_transformer, sluice_store;
grant usage on schema store to sluice_gate, sluice_publisher, sluice_runner, sluice_analyst;
grant select on ops.relations, ops.versions, ops.version_models, ops.manifests,
    ops.manifest_artifacts, ops.artifacts to sluice_transformer;
grant insert on ops.relations, ops.versions, ops.version_models to sluice_transformer;
grant update (state, row_count, columns, adopted_at) on ops.relations to sluice_transformer;

-- sweeps tell a dead attempt by its lease
grant select on ops.leases to sluice_extractor, sluice_transformer;

-- gate: reads only
grant usage on schema staging to sluice_gate, sluice_transformer;
grant select on ops.artifacts, ops.manifests, ops.manifest_artifacts, ops.runs to sluice_gate;

-- a change of shape is found before anything is published
grant select on ops.published_models, ops.publication_pointer, ops.slot_views
    to sluice_transformer, sluice_gate, sluice_analyst;
grant select on ops.versions, ops.version_models, ops.relations to sluice_gate;

-- publisher: views and the pointer, no data
grant usage, create on schema slot_a, slot_b, analytics to sluice_publisher;
grant select on ops.versions, ops.version_models, ops.relations, ops.manifests,
    ops.manifest_artifacts, ops.artifacts, ops.runs, ops.verdicts, ops.publications,
    ops.publication_pointer, ops.slot_views, ops.published_models to sluice_publisher;
grant insert on ops.publications, ops.publication_pointer, ops.outbox to sluice_publisher;
grant update on ops.publication_pointer to sluice_publisher;
grant insert, update, delete on ops.slot_views, ops.published_models to sluice_publisher;
grant update (state, published_at) on ops.versions to sluice_publisher;
grant select (outbox_id, dedup_key) on ops.outbox to sluice_publisher;

-- people
grant usage on schema analytics to sluice_reader, sluice_analyst, sluice_reviewer, sluice_runner;
grant select on ops.versions, ops.version_models, ops.publications, ops.publication_pointer,
    ops.manifests, ops.manifest_artifacts, ops.artifacts, ops.relations to sluice_analyst;
grant update (decision, decided_by, decided_at, decision_reason)
    on quarantine.records, quarantine.partitions to sluice_reviewer;
grant insert on ops.operator_actions to sluice_reviewer, sluice_publisher;

-- The function that seals must own nothing but store, yet take over what the transformer made.
grant create on schema ops to sluice_store;
alter function ops.seal_relation(text) owner to sluice_store;
revoke create on schema ops from sluice_store;
grant execute on function ops.seal_relation(text) to sluice_transformer;

create function ops.create_version_schema(p_version_id text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_version_id !~ '^v_[0-9a-f]{16}$' then
        raise exception 'not a version id: %', p_version_id using errcode = 'invalid_parameter_value';
    end if;
    execute format('create schema if not exists %I', p_version_id);
    execute format('grant usage, create on schema %I to sluice_transformer', p_version_id);
    execute format('grant usage on schema %I to sluice_gate, sluice_runner, sluice_analyst', p_version_id);
end
$$;
create function ops.drop_version_schema(p_version_id text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_version_id !~ '^v_[0-9a-f]{16}$' then
        raise exception 'not a version id: %', p_version_id using errcode = 'invalid_parameter_value';
    end if;
    execute format('drop schema if exists %I cascade', p_version_id);
end
$$;
revoke execute on function ops.create_version_schema(text), ops.drop_version_schema(text) from public;
grant execute on function ops.create_version_schema(text) to sluice_transformer;
grant execute on function ops.drop_version_schema(text) to sluice_publisher, sluice_runner;
