-- The dbt manifest of the project behind a version, as it was recorded last.
select s.manifest
from ops.version_states as v
inner join ops.dbt_states as s on v.state_id = s.state_id
where v.version_id = %(version_id)s
order by v.recorded_at desc
limit 1
