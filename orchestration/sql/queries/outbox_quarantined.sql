-- What a run kept out, by resource and rule; never what it was.
select q.resource, q.rule, count(*)::bigint as count
from quarantine.records q
where q.run_id = %s
group by 1, 2
order by 1, 2
