-- Corrections by hand that are in force for windows that are fetched again, unless a still later
-- revision of the window was fetched before.
select
    w.resource,
    w.window_name,
    w.revision,
    r.record_id,
    r.source_ref,
    r.rule,
    r.field,
    r.error,
    r.payload,
    r.altered,
    r.correction,
    false as is_of_origin
from unnest(%(resources)s::text [], %(windows)s::text [], %(revisions)s::integer [])
    as w (resource, window_name, revision)
join ops.artifacts as a
    on a.pipeline = %(pipeline)s
    and a.resource = w.resource
    and a.window_name = w.window_name
    and a.origin_id is null
    and a.revision < w.revision
join quarantine.records as r
    on r.artifact_id = a.artifact_id
    and r.correction is not null
    and r.superseded_by is null
where quarantine.later_fetched(a.pipeline, a.resource, a.window_name, w.revision) is null
order by r.record_id
