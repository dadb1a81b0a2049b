-- The verdicts of the same suite before this one, the newest first; bounded, so that history costs nothing.
select v.results
from ops.verdicts as v
where v.pipeline = %(pipeline)s and v.suite = %(suite)s and v.verdict_id < %(verdict_id)s
order by v.verdict_id desc
limit %(runs)s
