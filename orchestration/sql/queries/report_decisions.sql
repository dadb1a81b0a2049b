-- What people decided about this run, its version, its partitions and their records, the oldest first.
with concerned as (
    select a.artifact_id, a.partition
    from ops.run_partitions as p
    inner join ops.artifacts as a on a.artifact_id = p.artifact_id
    where p.run_id = %(run_id)s
)

select o.acted_at, o.action, o.target, o.actor, o.reason
from ops.operator_actions as o
where
    o.target in (%(run_id)s, %(version_id)s)
    or o.target in (select c.partition from concerned as c)
    or o.target in (
        select 'record-' || r.record_id
        from concerned as c
        inner join quarantine.records as r on r.artifact_id = c.artifact_id
    )
    or starts_with(o.target, %(run_id)s || '/')
order by o.action_id
