-- Beginning and ending a unit of work in one round trip and one commit each, under its fence.
-- They run as their caller: the runner writes checkpoints with its own privileges.

create function ops.begin_attempts(
    p_lease text, p_fence bigint, p_run_id text, p_worker text, p_units jsonb
) returns table (idempotency_key text, attempt integer)
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    perform ops.assert_fence(p_lease, p_fence);
    update ops.attempts as a set status = 'lost', finished_at = clock_timestamp()
    from jsonb_to_recordset(p_units) as u (key text)
    where a.idempotency_key = u.key and a.status = 'running';
    return query
    with begun as (
        insert into ops.checkpoints as c (idempotency_key, pipeline, stage, step, source_partition,
            run_id, status, fence, attempt, input_ref)
        select u.key, u.pipeline, u.stage, u.step, u.source_partition, p_run_id, 'running', p_fence, 1,
            u.input_ref
        from jsonb_to_recordset(p_units) as u (key text, pipeline text, stage text, step text,
            source_partition text, input_ref text)
        on conflict (idempotency_key) do update
            set run_id = excluded.run_id, status = 'running', fence = excluded.fence,
                attempt = c.attempt + 1, input_ref = excluded.input_ref, output_ref = null,
                checksum = null, error_code = null, error_kind = null, error_transient = null,
                error_message = null, cause = null, started_at = clock_timestamp(), finished_at = null
        returning c.idempotency_key, c.attempt
    ), noted as (
        -- The foreign key is looked at when the whole statement has ended.
        insert into ops.attempts (idempotency_key, attempt, run_id, fence, worker)
        select b.idempotency_key, b.attempt, p_run_id, p_fence, p_worker from begun as b
    )
    select b.idempotency_key, b.attempt from begun as b;
end
$$;
comment on function ops.begin_attempts is
    'Marks units of one lease running and what a dead worker left of them lost; raises SL001.';

create function ops.claim_units(p_worker text, p_ttl interval, p_run_id text, p_units jsonb)
returns table (idempotency_key text, fence bigint, attempt integer)
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    unit jsonb;
begin
    -- In one order everywhere, so that two workers who want the same units do not deadlock.
    for unit in
        select u from jsonb_array_elements(p_units) as u order by u ->> 'lease_name', u ->> 'key'
    loop
        fence := ops.acquire_lease(unit ->> 'lease_name', p_worker, p_ttl);
        continue when fence is null;
        idempotency_key := unit ->> 'key';
        attempt := null;
        -- A new statement, so it sees what another worker finished before it gave the lease back.
        if not exists (
            select from ops.checkpoints c
            where c.idempotency_key = unit ->> 'key' and c.status = 'succeeded'
        ) then
            select b.attempt into attempt
            from ops.begin_attempts(
                unit ->> 'lease_name', fence, p_run_id, p_worker, jsonb_build_array(unit)
            ) as b;
        end if;
        return next;
    end loop;
end
$$;
comment on function ops.claim_units is
    'Takes each unit''s free lease and begins its attempt; no attempt when the unit is finished.';

create function ops.record_success(
    p_lease text, p_fence bigint, p_key text, p_output_ref text, p_checksum text, p_result jsonb,
    p_release boolean
) returns setof ops.checkpoints
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    -- The same write again, because its answer was lost: it may have given the lease back already.
    return query
    select * from ops.checkpoints c
    where c.idempotency_key = p_key and c.fence = p_fence and c.status = 'succeeded'
        and c.output_ref = p_output_ref and c.checksum is not distinct from p_checksum
        and c.result = p_result;
    if found then
        return;
    end if;
    perform ops.assert_fence(p_lease, p_fence);
    return query
    update ops.checkpoints as c
    set status = 'succeeded', output_ref = p_output_ref, checksum = p_checksum, result = p_result,
        finished_at = clock_timestamp()
    where c.idempotency_key = p_key and c.fence = p_fence
    returning *;
    if not found then
        raise exception 'the attempt under fence % of lease % is not the latest', p_fence, p_lease
            using errcode = 'SL001';
    end if;
    update ops.attempts as a set status = 'succeeded', finished_at = clock_timestamp()
    where a.idempotency_key = p_key and a.fence = p_fence and a.status = 'running';
    if p_release then
        perform ops.release_lease(p_lease, p_fence);
    end if;
end
$$;
comment on function ops.record_success is
    'The checkpoint, succeeded under this fence; twice is the same as once; raises SL001.';

revoke execute on function
    ops.begin_attempts(text, bigint, text, text, jsonb),
    ops.claim_units(text, interval, text, jsonb),
    ops.record_success(text, bigint, text, text, text, jsonb, boolean)
from public;
grant execute on function
    ops.begin_attempts(text, bigint, text, text, jsonb),
    ops.claim_units(text, interval, text, jsonb),
    ops.record_success(text, bigint, text, text, text, jsonb, boolean)
to sluice_runner;
