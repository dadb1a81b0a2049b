-- Every revision of a window that was adopted, or one of them; and the revisions that brought the same rows.
select
    a.artifact_id, a.pipeline, a.partition, a.resource, a.window_name, a.checksum, a.loaded as rows, a.run_id,
    a.fetched_at, a.state, a.acceptance,
    array(
        select same.partition from ops.artifacts as same
        where same.pipeline = a.pipeline and same.resource = a.resource and same.window_name = a.window_name
            and same.artifact_id <> a.artifact_id and same.state in ('adopted', 'dropped')
            and same.checksum = a.checksum and same.loaded = a.loaded
        order by same.revision
    ) as same_rows_as
from ops.artifacts as a
where a.resource = %(resource)s
    and a.window_name = %(window)s
    and (%(revision)s::integer is null or a.revision = %(revision)s)
    and a.state in ('adopted', 'dropped')
order by a.pipeline, a.revision, a.created_at
