-- Resources of a run of which a partition did not arrive or was not accepted.
select distinct p.resource
from ops.run_partitions p
where p.run_id = %s and p.state in ('failed', 'quarantined')
order by 1
