-- What the source sent, and where it is: counts of fetched artifacts, from their own rows and from the
-- quarantine. `unreconciled` counts artifacts, retries included, whose numbers do not agree.
with kept as (
    select
        r.artifact_id,
        count(*) as quarantined,
        count(*) filter (where r.decision = 'held') as held,
        count(*) filter (where r.decision = 'retried') as retried,
        count(*) filter (where r.decision = 'discarded') as discarded,
        count(*) filter (where r.decision = 'released') as released
    from quarantine.records as r
    group by 1
),

loaded_again as (
    select t.artifact_id, count(*) filter (where r.artifact_id = t.origin_id) as records
    from quarantine.retries as t
    join quarantine.retry_records as m using (retry_id)
    join quarantine.records as r using (record_id)
    where t.status = 'loaded' and m.outcome = 'loaded'
    group by 1
),

artifacts as (
    select
        a.pipeline,
        a.resource,
        a.origin_id is null as is_fetched,
        a.fetched,
        a.loaded,
        a.quarantined,
        coalesce(k.held, 0) as held,
        coalesce(k.retried, 0) as retried,
        coalesce(k.discarded, 0) as discarded,
        coalesce(k.released, 0) as released,
        case
            when a.origin_id is null then coalesce(k.quarantined, 0)
            else coalesce(o.quarantined, 0) - coalesce(l.records, 0)
        end as kept
    from ops.artifacts as a
    left join kept as k on k.artifact_id = a.artifact_id
    left join kept as o on o.artifact_id = a.origin_id
    left join loaded_again as l on l.artifact_id = a.artifact_id
    where a.state = 'adopted'
        and (%(pipeline)s::text is null or a.pipeline = %(pipeline)s)
        and (%(resource)s::text is null or a.resource = %(resource)s)
        and (
            %(run)s::text is null
            or a.run_id = %(run)s
            or a.artifact_id in (select p.artifact_id from ops.run_partitions as p where p.run_id = %(run)s)
        )
)

select
    c.pipeline,
    c.resource,
    count(*) filter (where c.is_fetched) as partitions,
    coalesce(sum(c.fetched) filter (where c.is_fetched), 0)::bigint as fetched,
    coalesce(sum(c.loaded) filter (where c.is_fetched), 0)::bigint as loaded,
    coalesce(sum(c.quarantined) filter (where c.is_fetched), 0)::bigint as quarantined,
    coalesce(sum(c.held) filter (where c.is_fetched), 0)::bigint as held,
    coalesce(sum(c.retried) filter (where c.is_fetched), 0)::bigint as retried,
    coalesce(sum(c.discarded) filter (where c.is_fetched), 0)::bigint as discarded,
    coalesce(sum(c.released) filter (where c.is_fetched), 0)::bigint as released,
    count(*) filter (
        where c.fetched is distinct from c.loaded + c.quarantined
            or c.quarantined is distinct from c.kept
            or (c.is_fetched and c.quarantined <> c.held + c.retried + c.discarded + c.released)
    ) as unreconciled
from artifacts as c
group by 1, 2
order by 1, 2
