-- Partitioned models keep segments: immutable tables that hold the partitions one build had to make.

create table ops.segment_partitions (
    relation_name text not null references ops.relations on delete cascade,
    partition text not null,
    partition_key text not null check (partition_key ~ '^[0-9a-f]{64}$'),
    row_count bigint not null,
    primary key (relation_name, partition)
);
create index segment_partitions_key on ops.segment_partitions (partition_key);
comment on table ops.segment_partitions is
    'What each segment holds; a partition without rows stands here too, so that nobody builds it again.';
comment on column ops.segment_partitions.partition is 'window name of the inputs, as in column _partition';
comment on column ops.segment_partitions.partition_key is
    'content key of one partition: equal keys mean equal rows, in whatever segment they lie';

create table ops.view_segments (
    view_name text not null references ops.relations on delete cascade,
    segment_name text not null references ops.relations,
    hidden text[] not null default '{}',
    primary key (view_name, segment_name)
);
create index view_segments_segment on ops.view_segments (segment_name);
comment on table ops.view_segments is
    'The segments below the view of a partitioned model (ops.relations, kind view), and which of their '
    'partitions another segment replaces.';

-- A model whose partitions were built alone and together, and came out the same.
create table ops.partition_checks (
    definition_key text primary key check (definition_key ~ '^[0-9a-f]{64}$'),
    model text not null,
    partitions text[] not null,
    checked_at timestamptz not null default clock_timestamp()
);

grant select on ops.segment_partitions, ops.view_segments, ops.partition_checks to
    sluice_runner, sluice_reviewer, sluice_transformer, sluice_gate, sluice_publisher, sluice_analyst;
grant insert on ops.segment_partitions, ops.view_segments, ops.partition_checks to sluice_transformer;

-- A build reads the artifacts of its partitions and nothing else; its inputs are temporary views.
do $$
begin
    execute format('grant temporary on database %I to sluice_transformer', current_database());
end
$$;
