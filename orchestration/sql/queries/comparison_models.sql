-- What a version shows readers, and further models by name: relation, columns, rows. A view that is
-- not published keeps no rows of its own, and may show those of another manifest.
select
    m.model,
    m.relation_name,
    m.content_key,
    r.columns,
    r.row_count
from ops.version_models as m
inner join ops.relations as r using (relation_name)
where
    m.version_id = %(version_id)s
    and (
        m.published
        or (
            m.model = any(%(extra)s)
            and (
                r.kind = 'table'
                or exists (select from ops.view_segments as s where s.view_name = r.relation_name)
            )
        )
    )
order by m.model
