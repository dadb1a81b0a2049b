-- Messages and runs that wait: how many, and for how long the oldest has.
select
    w.pipeline,
    count(*)::bigint as messages,
    extract(epoch from clock_timestamp() - min(i.received_at))::double precision as oldest_s
from ops.inbox_work w
join ops.inbox i using (inbox_id)
where w.run_id is null and (%(pipeline)s::text is null or w.pipeline = %(pipeline)s)
group by 1
order by 1
