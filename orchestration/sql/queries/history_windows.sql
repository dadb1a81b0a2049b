-- The accepted revision in use of each of these windows, its rows as they were counted, and when the window
-- was first fetched.
select distinct on (a.window_name)
    a.window_name,
    a.artifact_id,
    a.loaded,
    min(a.fetched_at) over (partition by a.window_name) as first_fetched_at
from ops.artifacts as a
where a.pipeline = %(pipeline)s
    and a.resource = %(resource)s
    and a.window_name = any(%(windows)s)
    and a.acceptance = 'accepted'
order by a.window_name, a.source_revision desc, a.revision desc
