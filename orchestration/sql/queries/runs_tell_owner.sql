-- One message about a run's end to the owner of the stage that it ended in.
insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload)
select %(dedup_key)s, r.pipeline, r.run_id, %(kind)s, coalesce(%(owner)s, s.owner, r.owner), %(payload)s
from ops.runs r left join ops.run_stages s on s.run_id = r.run_id and s.stage = %(stage)s
where r.run_id = %(run_id)s and coalesce(%(owner)s, s.owner, r.owner) is not null
on conflict (dedup_key) do nothing
