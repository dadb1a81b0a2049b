-- Locks a pipeline's pointer and turns it, or says what stands in the way.
select t.standing, t.unprepared, t.publication_id
from ops.turn_pointer(
    p_pipeline => %(pipeline)s, p_version_id => %(version_id)s, p_expected => %(expected)s,
    p_slot => %(slot)s, p_kind => %(kind)s, p_seen_publication => %(seen_publication)s,
    p_seen_flip => %(seen_flip)s, p_lease => %(lease)s, p_fence => %(fence)s,
    p_publication_id => %(publication_id)s, p_run_id => %(run_id)s, p_reason => %(reason)s,
    p_actor => %(actor)s, p_owner => %(owner)s, p_payload => %(payload)s
) as t
