-- What people decided about this run, its version or its partitions, the oldest first.
select o.acted_at, o.action, o.target, o.actor, o.reason
from ops.operator_actions as o
where
    o.target in (%(run_id)s, %(version_id)s)
    or o.target in (
        select a.partition
        from ops.run_partitions as p
        inner join ops.artifacts as a on a.artifact_id = p.artifact_id
        where p.run_id = %(run_id)s
    )
order by o.action_id
