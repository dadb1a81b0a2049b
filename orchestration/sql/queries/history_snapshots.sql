-- Rows of the accepted snapshots before this one, the newest first, as they were counted.
select a.loaded
from ops.artifacts as a
inner join ops.artifacts as b on b.artifact_id = %(artifact_id)s
where a.pipeline = b.pipeline
    and a.resource = b.resource
    and a.window_name = b.window_name
    and a.acceptance = 'accepted'
    and (a.source_revision, a.revision) < (b.source_revision, b.revision)
order by a.source_revision desc, a.revision desc
limit %(looked_at)s
