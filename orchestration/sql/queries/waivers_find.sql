-- For each of these breaches (by position) the first waiver that covers it: the same in the same content,
-- with no more rows than a reviewer has seen.
select
    wanted.position,
    found.waiver_id,
    found.partition,
    found.reason,
    found.decided_by,
    found.decided_at
from unnest(
    %(subjects)s::text[], %(expectations)s::text[], %(contents)s::text[], %(failing)s::bigint[]
) with ordinality as wanted (subject, expectation, content, failing, position)
cross join lateral (
    select w.waiver_id, w.partition, w.reason, w.decided_by, w.decided_at
    from ops.waivers as w
    where
        w.pipeline = %(pipeline)s
        and w.subject = wanted.subject
        and w.expectation = wanted.expectation
        and w.content = wanted.content
        and coalesce(wanted.failing <= w.failing, wanted.failing is null)
    order by w.waiver_id
    limit 1
) as found
