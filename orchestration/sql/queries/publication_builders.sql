-- The code of every run that came to a version, the one that recorded it first.
select b.code_id, b.code_commit, b.code_dirty
from (
    select 0 as place, v.created_at as moment, v.code_id, v.code_commit, v.code_dirty
    from ops.versions as v where v.version_id = %s
    union all
    select 1, r.accepted_at, r.code_id, r.code_commit, r.code_dirty
    from ops.runs as r where r.version_id = %s
) as b
order by b.place, b.moment
