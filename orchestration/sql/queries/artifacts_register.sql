-- Announces an artifact; a revision that a reviewer asked for names its origin.
insert into ops.artifacts (
    artifact_id, pipeline, resource, window_name, revision, partition, run_id, lease_name, fence,
    origin_id, origin_revision
)
select n.artifact_id, n.pipeline, n.resource, n.window_name, n.revision, n.partition, n.run_id,
    n.lease_name, n.fence, t.origin_id, t.origin_revision
from (
    values (
        %s::text, %s::text, %s::text, %s::text, %s::integer, %s::text, %s::text, %s::text, %s::bigint
    )
) as n (artifact_id, pipeline, resource, window_name, revision, partition, run_id, lease_name, fence)
left join quarantine.retries as t on t.pipeline = n.pipeline and t.partition = n.partition
