-- Messages that wait for a run of a pipeline, the oldest first; nobody else takes them meanwhile.
select
    w.inbox_id,
    i.source,
    i.message_id,
    i.event,
    extract(epoch from clock_timestamp() - i.received_at)::double precision as age_s
from ops.inbox_work w
join ops.inbox i using (inbox_id)
where w.pipeline = %(pipeline)s and w.run_id is null
order by w.inbox_id
limit %(limit)s
for update of w
