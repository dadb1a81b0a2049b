-- Whoever may hold an old snapshot of this database, and the transaction id that the next writer will get.
-- Transaction ids are 32 bits here; the caller extends them with the horizon.
select
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint as horizon,
    'session' as kind,
    s.pid::text as name,
    s.usename::text as user_name,
    coalesce(nullif(s.application_name, ''), s.backend_type) as application,
    coalesce(s.xact_start, s.backend_start) as since,
    s.backend_xmin::text::bigint as xmin,
    s.backend_xid::text::bigint as xid,
    s.datname is null or s.datname = current_database() as can_read_here
from pg_stat_activity as s
where s.pid <> pg_backend_pid()
    and s.backend_type is distinct from 'autovacuum worker'
    and (s.backend_xmin is not null or s.backend_xid is not null)
union all
select
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    'prepared transaction',
    p.gid,
    p.owner::text,
    'two-phase commit',
    p.prepared,
    p.transaction::text::bigint,
    p.transaction::text::bigint,
    true
from pg_prepared_xacts as p
union all
select
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    'replication slot',
    r.slot_name::text,
    null,
    coalesce(r.plugin::text, r.slot_type),
    null,
    r.xmin::text::bigint,
    null,
    true
from pg_replication_slots as r
where r.xmin is not null
