-- What became of one entry, in order.
select d.event, d.actor, d.decided_at, d.reason, d.detail, d.run_id
from quarantine.decisions as d
where d.record_id = %s or d.partition_id = %s
order by d.decision_id
