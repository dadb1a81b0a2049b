-- For each published model: rows and columns now and in the version before, and how many partitions changed.
with now_has as (
    select m.model, m.relation_name, m.content_key, r.row_count, r.columns
    from ops.version_models as m
    inner join ops.relations as r on r.relation_name = m.relation_name
    where m.version_id = %(version_id)s and m.published
),

before_had as (
    select m.model, m.relation_name, m.content_key, r.row_count, r.columns
    from ops.version_models as m
    inner join ops.relations as r on r.relation_name = m.relation_name
    where m.version_id = %(previous)s and m.published
),

partitions as (
    select m.model, m.side, p.partition, p.partition_key
    from (
        select n.model, 'now' as side, n.relation_name from now_has as n
        union all
        select b.model, 'before' as side, b.relation_name from before_had as b
    ) as m
    inner join ops.view_segments as s on s.view_name = m.relation_name
    inner join ops.segment_partitions as p
        on p.relation_name = s.segment_name and p.partition <> all(s.hidden)
),

changed as (
    select
        coalesce(n.model, b.model) as model,
        count(*) filter (where b.partition is null) as added,
        count(*) filter (where n.partition is null) as removed,
        count(*) filter (where n.partition_key <> b.partition_key) as rebuilt
    from (select * from partitions where side = 'now') as n
    full join (select * from partitions where side = 'before') as b
        on b.model = n.model and b.partition = n.partition
    where n.partition_key is distinct from b.partition_key
    group by 1
)

select
    coalesce(n.model, b.model) as model,
    b.row_count as rows_before,
    n.row_count as rows_now,
    n.content_key is not distinct from b.content_key as is_unchanged,
    c.added as partitions_added,
    c.removed as partitions_removed,
    c.rebuilt as partitions_rebuilt,
    array(
        select e ->> 'name' from jsonb_array_elements(n.columns) as e
        where b.columns is not null and not b.columns @> jsonb_build_array(e)
    ) as columns_added,
    array(
        select e ->> 'name' from jsonb_array_elements(b.columns) as e
        where n.columns is not null and not n.columns @> jsonb_build_array(e)
    ) as columns_removed
from now_has as n
full join before_had as b on b.model = n.model
left join changed as c on c.model = coalesce(n.model, b.model)
order by 1
