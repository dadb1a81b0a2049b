-- Which of these sessions read a version in a schema of its own, and nothing that is published.
select l.pid
from pg_locks as l
join pg_class as v on v.oid = l.relation
join pg_namespace as n on n.oid = v.relnamespace
where l.locktype = 'relation'
    and l.pid = any(%(pids)s)
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
group by l.pid
having bool_or(n.nspname ~ '^v_[0-9a-f]{16}$')
    and not bool_or(n.nspname in ('analytics', 'deferred', 'former', 'slot_a', 'slot_b'))
