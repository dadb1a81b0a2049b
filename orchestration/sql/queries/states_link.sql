-- This state makes the version; said again later, it is the last one once more.
insert into ops.version_states (version_id, state_id)
values (%(version_id)s, %(state_id)s)
on conflict (version_id, state_id) do update set recorded_at = clock_timestamp()
