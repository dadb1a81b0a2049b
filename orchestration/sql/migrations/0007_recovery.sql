-- Ends that are named for their cause, requests to cancel, recoveries, and work to be done again.

alter table ops.runs
    add column owner text,
    add column cause text
        check (cause in ('attempts_exhausted', 'permanent_error', 'superseded', 'cancelled')),
    add column superseded_by text references ops.runs on delete set null,
    add column recoveries integer not null default 0 check (recoveries >= 0),
    add column cancel_requested_at timestamptz,
    add column cancel_requested_by text,
    add column cancel_reason text,
    drop constraint runs_status_check,
    drop constraint runs_check,
    drop constraint runs_check1;
update ops.runs
    set cause = case when (failure ->> 'transient')::boolean then 'attempts_exhausted' else 'permanent_error' end
    where status = 'failed';
alter table ops.runs
    add constraint runs_status_check
        check (status in ('accepted', 'running', 'finished', 'failed', 'cancelled')),
    add constraint runs_ended_with_an_outcome
        check ((status in ('finished', 'failed', 'cancelled')) = (outcome is not null)),
    add constraint runs_failed_for_a_reason
        check (outcome is null or outcome = 'held'
            or (outcome = 'failed') = (failure is not null and status in ('failed', 'cancelled'))),
    add constraint runs_failed_by_a_cause
        check ((status in ('failed', 'cancelled')) = (cause is not null)),
    add constraint runs_cancelled_on_request check ((status = 'cancelled') = (cause = 'cancelled'));
create index runs_unfinished on ops.runs (accepted_at) where status in ('accepted', 'running');

comment on column ops.runs.status is
    'accepted -> running -> finished | failed | cancelled; failed and cancelled runs may run again '
    '-> running; a replay makes any ended run accepted again';
comment on column ops.runs.owner is 'who is told as long as no stage has begun';
comment on column ops.runs.cause is 'why it ended without an accepted result';
comment on column ops.runs.superseded_by is
    'the run in which the same request went on, under other code';
comment on column ops.runs.recoveries is 'how often a dead worker was replaced since the run last ended';
comment on column ops.runs.cancel_requested_at is
    'its worker stops when it sees this; asking for the run again takes it back';

alter table ops.checkpoints
    add column cause text check (cause in ('attempts_exhausted', 'permanent_error', 'cancelled')),
    drop constraint checkpoints_status_check,
    add constraint checkpoints_status_check
        check (status in ('running', 'succeeded', 'failed', 'invalidated')),
    add constraint checkpoints_failed_by_a_cause check (cause is null or status = 'failed');
comment on column ops.checkpoints.status is
    'running -> succeeded | failed; failed or running (fence lost) -> running; '
    'succeeded -> invalidated (an operator wants it done again) -> running';
comment on column ops.checkpoints.cause is
    'why a failed unit is not tried again by itself; null while it is';

alter table ops.run_stages add column owner text;
comment on column ops.run_stages.owner is 'who is told about this stage';
