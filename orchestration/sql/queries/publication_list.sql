-- The publications of a pipeline, the newest first.
select publication_id, version_id, previous_version_id, kind, slot, run_id, reason, actor, published_at
from ops.publications
where pipeline = %(pipeline)s
order by publication_id desc
limit %(limit)s
