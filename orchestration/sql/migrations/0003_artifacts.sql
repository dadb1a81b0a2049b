-- What was loaded, what was kept out, and which exact set a version is built from.

create table ops.artifacts (
    artifact_id text primary key,
    pipeline text not null,
    resource text not null,
    window_name text not null,
    revision integer not null check (revision >= 1),
    partition text not null,
    run_id text not null,
    lease_name text not null,
    fence bigint not null,
    state text not null default 'loading' check (state in ('loading', 'adopted', 'abandoned')),
    fetched bigint,
    loaded bigint,
    quarantined bigint,
    checksum text,
    schema_version text,
    unexpected_fields text[] not null default '{}',
    fetched_at timestamptz,
    acceptance text not null default 'pending' check (acceptance in ('pending', 'accepted', 'rejected')),
    acceptance_reason text,
    created_at timestamptz not null default clock_timestamp(),
    adopted_at timestamptz,
    check (state <> 'adopted' or (checksum is not null and fetched = loaded + quarantined)),
    check (acceptance = 'pending' or state = 'adopted')
);
create unique index artifacts_one_per_partition on ops.artifacts (pipeline, partition)
    where state = 'adopted';
create index artifacts_accepted on ops.artifacts (pipeline, resource, window_name, revision desc)
    where acceptance = 'accepted';
create index artifacts_loading on ops.artifacts (created_at) where state <> 'adopted';
comment on column ops.artifacts.state is 'loading -> adopted | abandoned, by compare-and-set under the fence';
comment on column ops.artifacts.checksum is 'order-independent checksum of the contract''s columns';

create table ops.manifests (
    manifest_id text primary key,
    pipeline text not null,
    run_id text not null,
    created_at timestamptz not null default clock_timestamp()
);

create table ops.manifest_artifacts (
    manifest_id text not null references ops.manifests on delete cascade,
    resource text not null,
    window_name text not null,
    artifact_id text not null references ops.artifacts,
    primary key (manifest_id, resource, window_name)
);
create index manifest_artifacts_artifact on ops.manifest_artifacts (artifact_id);

create table quarantine.records (
    record_id bigint generated always as identity primary key,
    pipeline text not null,
    resource text not null,
    partition text not null,
    artifact_id text not null references ops.artifacts,
    run_id text not null,
    source_ref text not null,
    rule text not null,
    field text,
    error text not null,
    payload jsonb not null,
    contract_version text not null,
    decision text not null default 'held' check (decision in ('held', 'retried', 'discarded', 'released')),
    decided_by text,
    decided_at timestamptz,
    decision_reason text,
    quarantined_at timestamptz not null default clock_timestamp(),
    unique (artifact_id, source_ref)
);
create index records_by_resource on quarantine.records (resource, rule, quarantined_at desc);
create index records_by_run on quarantine.records (run_id);
comment on column quarantine.records.payload is 'the record as received, redacted before it was stored';

create table quarantine.partitions (
    partition_id bigint generated always as identity primary key,
    pipeline text not null,
    resource text not null,
    partition text not null,
    artifact_id text not null references ops.artifacts,
    run_id text not null,
    rule text not null,
    error text not null,
    decision text not null default 'held' check (decision in ('held', 'retried', 'discarded', 'released')),
    decided_by text,
    decided_at timestamptz,
    decision_reason text,
    quarantined_at timestamptz not null default clock_timestamp(),
    unique (artifact_id, rule)
);
