-- What was asked for, how far it got, and who may work on it.

create table ops.leases (
    name text primary key,
    holder text,
    fence bigint not null,
    acquired_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
);
comment on table ops.leases is 'Who may work on a thing now; the fence grows with every acquisition.';

create sequence ops.fence;

create function ops.acquire_lease(p_name text, p_holder text, p_ttl interval) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    insert into ops.leases as l (name, holder, fence, expires_at)
    values (p_name, p_holder, nextval('ops.fence'), clock_timestamp() + p_ttl)
    on conflict (name) do update
        set holder = excluded.holder, fence = excluded.fence,
            acquired_at = clock_timestamp(), expires_at = excluded.expires_at
        where l.expires_at <= clock_timestamp()
    returning fence
$$;
comment on function ops.acquire_lease is 'The new fence, or null while another holder''s lease is alive.';

create function ops.extend_lease(p_name text, p_fence bigint, p_ttl interval) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with extended as (
        update ops.leases set expires_at = clock_timestamp() + p_ttl
        where name = p_name and fence = p_fence and expires_at > clock_timestamp()
        returning 1
    )
    select exists (select from extended)
$$;

create function ops.release_lease(p_name text, p_fence bigint) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with released as (
        update ops.leases set expires_at = '-infinity', holder = null
        where name = p_name and fence = p_fence
        returning 1
    )
    select exists (select from released)
$$;

-- FOR SHARE keeps the lease from changing hands until the caller's transaction ends.
create function ops.assert_fence(p_name text, p_fence bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform 1 from ops.leases
    where name = p_name and fence = p_fence and expires_at > clock_timestamp()
    for share;
    if not found then
        raise exception 'lease % is no longer held under fence %', p_name, p_fence
            using errcode = 'SL001';
    end if;
end
$$;
comment on function ops.assert_fence is 'Raises SQLSTATE SL001 unless the lease is alive under this fence.';

create table ops.runs (
    run_id text primary key,
    pipeline text not null,
    trigger_kind text not null
        check (trigger_kind in ('manual', 'schedule', 'webhook', 'micro_batch', 'backfill')),
    trigger_key text not null,
    code_id text not null,
    code_commit text,
    code_dirty boolean,
    request jsonb not null,
    publish boolean not null default true,
    as_of timestamptz not null,
    correlation_id text not null,
    workflow_id text not null,
    status text not null default 'accepted'
        check (status in ('accepted', 'running', 'finished', 'failed')),
    outcome text check (outcome in ('published', 'unchanged', 'degraded', 'held', 'failed')),
    failure jsonb,
    version_id text,
    accepted_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    unique (pipeline, trigger_kind, trigger_key, code_id),
    check ((status in ('finished', 'failed')) = (outcome is not null)),
    check ((outcome = 'failed') = (failure is not null and status = 'failed') or outcome is null
        or outcome = 'held')
);
create index runs_newest on ops.runs (accepted_at desc);
comment on column ops.runs.status is
    'accepted -> running -> finished | failed; a failed run may run again -> running';

create table ops.run_partitions (
    run_id text not null references ops.runs on delete cascade,
    resource text not null,
    window_name text not null,
    revision integer not null check (revision >= 1),
    state text not null default 'requested'
        check (state in ('requested', 'extracted', 'reused', 'quarantined', 'failed')),
    artifact_id text,
    primary key (run_id, resource, window_name)
);

create table ops.checkpoints (
    idempotency_key text primary key check (idempotency_key ~ '^[0-9a-f]{64}$'),
    pipeline text not null,
    stage text not null
        check (stage in ('initialize', 'extract', 'validate', 'transform', 'gate', 'publish', 'notify')),
    step text not null default '' check (step in ('', 'fetch')),
    source_partition text not null,
    run_id text not null,
    status text not null check (status in ('running', 'succeeded', 'failed')),
    fence bigint not null,
    attempt integer not null check (attempt >= 1),
    input_ref text,
    output_ref text,
    checksum text,
    result jsonb not null default '{}',
    error_code text,
    error_kind text,
    error_transient boolean,
    error_message text,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    unique (pipeline, source_partition, stage, step),
    check (status <> 'succeeded' or output_ref is not null),
    check (status <> 'failed' or error_code is not null)
);
comment on column ops.checkpoints.status is 'running -> succeeded | failed; failed or running (fence lost) -> running';
comment on column ops.checkpoints.source_partition is
    'the partition, or for later stages the digest of everything the stage consumes';

create table ops.attempts (
    idempotency_key text not null references ops.checkpoints on delete cascade,
    attempt integer not null,
    run_id text not null,
    fence bigint not null,
    worker text not null,
    status text not null default 'running' check (status in ('running', 'succeeded', 'failed', 'lost')),
    error_code text,
    error_message text,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    primary key (idempotency_key, attempt)
);
comment on column ops.attempts.status is
    'running -> succeeded | failed, or lost when a later attempt took over from a dead worker';

create table ops.run_stages (
    run_id text not null references ops.runs on delete cascade,
    stage text not null,
    position smallint not null,
    idempotency_key text,
    status text not null check (status in ('running', 'succeeded', 'reused', 'skipped', 'held', 'failed')),
    attempts integer not null default 0,
    input_ref text,
    output_ref text,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    primary key (run_id, stage)
);

create table ops.outbox (
    outbox_id bigint generated always as identity primary key,
    dedup_key text not null unique,
    pipeline text not null,
    run_id text,
    kind text not null,
    owner text not null,
    payload jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    delivered_at timestamptz
);

create table ops.operator_actions (
    action_id bigint generated always as identity primary key,
    action text not null,
    target text not null,
    reason text not null check (reason <> ''),
    actor text not null default session_user,
    acted_at timestamptz not null default clock_timestamp()
);
