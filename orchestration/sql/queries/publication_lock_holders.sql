-- Who holds a lock on any of these views (schema.name), the oldest transaction first.
select
    'session' as kind,
    s.pid::text as name,
    s.usename::text as user_name,
    coalesce(nullif(s.application_name, ''), s.backend_type) as application,
    coalesce(s.xact_start, s.backend_start) as since,
    extract(epoch from clock_timestamp() - coalesce(s.xact_start, s.backend_start))::float8 as age_s
from pg_stat_activity as s
where s.pid <> pg_backend_pid()
    and s.pid in (
        select l.pid
        from pg_locks as l
        join pg_class as v on v.oid = l.relation
        join pg_namespace as n on n.oid = v.relnamespace
        where l.locktype = 'relation'
            and l.granted
            and l.database = (select d.oid from pg_database as d where d.datname = current_database())
            and n.nspname || '.' || v.relname = any(%(views)s)
    )
order by since
