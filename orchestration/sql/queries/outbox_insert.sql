-- One message, once.
insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload)
values (%(key)s, %(pipeline)s, %(run_id)s, %(kind)s, %(owner)s, %(payload)s)
on conflict (dedup_key) do nothing
