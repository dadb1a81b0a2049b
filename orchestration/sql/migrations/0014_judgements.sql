-- What gates have accepted, so that the next one judges what changed and nothing else.

create table ops.judgements (
    judgement_id bigint generated always as identity primary key,
    pipeline text not null,
    subject text not null,
    rule text not null check (rule ~ '^[0-9a-f]{64}$'),
    version_id text not null references ops.versions on delete cascade,
    verdict text not null check (verdict in ('passed', 'warned', 'failed', 'waived')),
    partitions text[],
    based_on text,
    verdict_id bigint,
    judged_at timestamptz not null default clock_timestamp(),
    unique (pipeline, subject, rule, version_id)
);
create index judgements_newest on ops.judgements (pipeline, subject, rule, judgement_id desc);
create index judgements_version on ops.judgements (version_id);
comment on table ops.judgements is
    'A rule was accepted for everything that a version holds: for these partitions by looking at them, for '
    'all others by the judgement on another version that has them too.';
comment on column ops.judgements.subject is 'the suite, or the dbt data test';
comment on column ops.judgements.rule is
    'digest of everything that decides the outcome besides the partitions: the expectations, their values, '
    'the content of what is read as a whole';
comment on column ops.judgements.verdict is
    'the worst of what was said about any partition; failed: the pipeline accepts that, too; waived: it '
    'failed, and a reviewer approved';
comment on column ops.judgements.partitions is 'those that were looked at; null: everything';
comment on column ops.judgements.based_on is 'the version whose judgement holds for all other partitions';
comment on column ops.judgements.verdict_id is 'the row of ops.verdicts, as long as that is kept';

-- The least and greatest value of a column in one partition; null where it has none.
create table ops.partition_extremes (
    partition_key text not null,
    column_name text not null,
    least text,
    greatest text,
    primary key (partition_key, column_name)
);
comment on table ops.partition_extremes is
    'Read once for each partition, so that the newest row of a model is known without looking for it.';

create function ops.forget_extremes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    delete from ops.partition_extremes e
    using gone g
    where e.partition_key = g.partition_key
        and not exists (
            select from ops.segment_partitions p where p.partition_key = g.partition_key
        );
    return null;
end
$$;
revoke execute on function ops.forget_extremes() from public;
create trigger forget_extremes after delete on ops.segment_partitions
    referencing old table as gone for each statement execute function ops.forget_extremes();

alter table ops.verdicts add column partitions text[];
comment on column ops.verdicts.partitions is
    'the partitions that were judged, an empty list when nothing had changed; null: everything there is';

grant select on ops.judgements, ops.partition_extremes to
    sluice_runner, sluice_reviewer, sluice_gate;
grant insert on ops.judgements, ops.partition_extremes to sluice_runner;
grant update (verdict, partitions, based_on, verdict_id, judged_at) on ops.judgements to sluice_runner;
