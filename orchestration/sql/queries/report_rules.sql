-- Quarantined records of the run by rule, and what was decided about them.
select
    q.resource,
    q.rule,
    q.field,
    q.decision,
    count(*) as records
from quarantine.records as q
inner join ops.run_partitions as p on p.artifact_id = q.artifact_id
where p.run_id = %(run_id)s
group by 1, 2, 3, 4
order by count(*) desc, 1, 2
