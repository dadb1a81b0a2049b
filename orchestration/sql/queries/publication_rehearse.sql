-- Does what turning the pointer does, for a pipeline that there is not, and takes it back.
select ops.rehearse_turn(
    p_pipeline => %(pipeline)s, p_version_id => %(version_id)s, p_slot => %(slot)s, p_lease => %(lease)s,
    p_fence => %(fence)s, p_publication_id => %(publication_id)s
)
