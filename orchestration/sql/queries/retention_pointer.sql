-- The time, the published version of a pipeline, and the one that a rollback goes to.
select
    clock_timestamp() as now,
    p.version_id as published,
    (
        select q.previous_version_id from ops.publications as q
        where q.pipeline = p.pipeline and q.version_id = p.version_id and q.kind = 'publish'
        order by q.publication_id desc limit 1
    ) as rollback_to
from (select %s::text as pipeline) as asked
left join ops.publication_pointer as p using (pipeline)
