-- What webhooks said, kept before anything is done about it, and the roles of the web service.

create table ops.inbox (
    inbox_id bigint generated always as identity primary key,
    source text not null,
    message_id text not null check (length(message_id) between 1 and 256),
    content_digest text not null check (content_digest ~ '^[0-9a-f]{64}$'),
    event jsonb not null,
    received_at timestamptz not null default clock_timestamp(),
    unique (source, message_id)
);
create index inbox_oldest on ops.inbox (received_at);
comment on table ops.inbox is 'Messages of senders, each once, whatever they repeat.';
comment on column ops.inbox.event is '{"type", "resource", "windows"}: what was valid of the message, and nothing else';

-- A message may concern several pipelines; each answers for itself.
create table ops.inbox_work (
    inbox_id bigint not null references ops.inbox on delete cascade,
    pipeline text not null,
    run_id text,
    taken_at timestamptz,
    primary key (pipeline, inbox_id),
    check ((run_id is null) = (taken_at is null))
);
create index inbox_work_waiting on ops.inbox_work (pipeline, inbox_id) where run_id is null;
create index inbox_work_message on ops.inbox_work (inbox_id);
create index inbox_work_run on ops.inbox_work (run_id) where run_id is not null;
comment on column ops.inbox_work.run_id is 'the run that does what the message asked for; null: it waits for the dispatcher';

create function ops.receive_event(
    p_source text, p_message_id text, p_digest text, p_event jsonb, p_pipelines text[]
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id bigint;
    v_digest text;
begin
    insert into ops.inbox (source, message_id, content_digest, event)
    values (p_source, p_message_id, p_digest, p_event)
    on conflict (source, message_id) do nothing
    returning inbox_id into v_id;
    if found then
        insert into ops.inbox_work (inbox_id, pipeline) select v_id, p from unnest(p_pipelines) p;
        return 'new';
    end if;
    select i.content_digest into strict v_digest from ops.inbox i
    where i.source = p_source and i.message_id = p_message_id;
    return case when v_digest = p_digest then 'repeated' else 'different' end;
end
$$;
comment on function ops.receive_event is
    'Keeps a message: new; repeated, when it is there already; different, when its id stands for another one.';

-- How a run that was accepted was handed to the platform, so that it is handed over once.
create table ops.run_starts (
    run_id text primary key references ops.runs on delete cascade,
    attempts integer not null default 0 check (attempts >= 0),
    next_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    reference text,
    error text,
    check ((started_at is null) = (reference is null))
);
create index run_starts_waiting on ops.run_starts (next_at) where started_at is null;
comment on column ops.run_starts.reference is 'the platform''s own id of what it started';

create function ops.forget_events(p_days integer) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with gone as (
        delete from ops.inbox i
        where i.received_at < clock_timestamp() - make_interval(days => greatest(p_days, 30))
            and not exists (
                select from ops.inbox_work w where w.inbox_id = i.inbox_id and w.run_id is null
            )
        returning 1
    )
    select count(*) from gone
$$;
comment on function ops.forget_events is
    'Drops messages that were taken on long ago; thirty days at least, so that a repeat is known as one.';

revoke execute on function
    ops.receive_event(text, text, text, jsonb, text[]), ops.forget_events(integer)
from public;

grant usage on schema ops to sluice_webhook, sluice_console;
grant execute on function ops.receive_event(text, text, text, jsonb, text[]) to sluice_webhook;

grant select on ops.inbox, ops.inbox_work, ops.run_starts to sluice_runner, sluice_reviewer;
grant update (run_id, taken_at) on ops.inbox_work to sluice_runner;
grant insert on ops.run_starts to sluice_runner;
grant update (attempts, next_at, started_at, reference, error) on ops.run_starts to sluice_runner;
grant execute on function ops.forget_events(integer) to sluice_runner;

-- The console shows what the command line shows, and never what a quarantined record holds.
grant select on all tables in schema ops to sluice_console;
alter default privileges in schema ops grant select on tables to sluice_console;
grant usage on schema quarantine to sluice_console;
grant select (record_id, pipeline, resource, partition, artifact_id, run_id, source_ref, rule, field,
    error, contract_version, decision, decided_by, decided_at, decision_reason, quarantined_at, altered,
    erased_at, is_corrected, retried_into, superseded_by, superseded_how) on quarantine.records to sluice_console;
grant select on quarantine.partitions, quarantine.retries, quarantine.decisions to sluice_console;
grant select (retry_id, record_id, reason, requested_by, outcome) on quarantine.retry_records
    to sluice_console;
