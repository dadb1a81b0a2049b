-- Which of these partitions an accepted revision of the same window has come after.
select a.partition
from ops.artifacts as a
where a.pipeline = %s
    and a.partition = any(%s)
    and a.state = 'adopted'
    and exists (
        select from ops.artifacts as later
        where later.pipeline = a.pipeline
            and later.resource = a.resource
            and later.window_name = a.window_name
            and later.acceptance = 'accepted'
            and (later.source_revision, later.revision) > (a.source_revision, a.revision)
    )
