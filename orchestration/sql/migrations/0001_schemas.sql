-- The rooms of the warehouse. Roles exist before this runs (orchestration/warehouse/roles.py).
create schema if not exists ops;
create schema if not exists staging;
create schema if not exists quarantine;
create schema if not exists store;
create schema if not exists live;
create schema if not exists slot_a;
create schema if not exists slot_b;
create schema if not exists analytics;

revoke all on schema public from public;

comment on schema ops is 'Runs, checkpoints, leases, artifacts, manifests, versions, publications, verdicts.';
comment on schema staging is 'Raw partitions as loaded: append-only, every row carries its artifact.';
comment on schema quarantine is 'Records and partitions that broke a rule, kept with the reason.';
comment on schema store is 'Immutable content-addressed relations that dbt models produced.';
comment on schema live is 'Sources as dbt sees them: the artifacts of one manifest.';
comment on schema slot_a is 'Views over the published version or the one beside it.';
comment on schema slot_b is 'Views over the published version or the one beside it.';
comment on schema analytics is 'Published views: stable names, one pointer per pipeline.';
