-- All that speaks against showing this version in this slot; no row means that nothing does.
with target as (
    select v.version_id, v.manifest_id, v.pipeline, v.created_at
    from ops.versions as v
    where v.version_id = %(version_id)s
),

current_version as (
    select v.version_id, v.manifest_id, v.created_at
    from ops.publication_pointer as p
    join ops.versions as v on v.version_id = p.version_id
    where p.pipeline = %(pipeline)s
),

models as (
    select m.model, m.relation_name, m.parents, m.published
    from ops.version_models as m
    where m.version_id = %(version_id)s
),

-- What a slot view of the model must read: its relation, or the companion of a partitioned one.
sources as materialized (
    select distinct on (m.model) m.model, c.oid
    from models as m
    join pg_class as c on c.relname in (m.relation_name, m.relation_name || '__live')
    join pg_namespace as n on n.oid = c.relnamespace and n.nspname = 'store'
    where m.published
    order by m.model, length(c.relname) desc
),

reads as (
    select w.ev_class as view, d.refobjid as read
    from pg_rewrite as w
    join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass
),

resources as (
    select distinct e.resource
    from target as t
    join ops.manifest_artifacts as e on e.manifest_id = t.manifest_id
)

select 'lineage' as objection, 'the version has no published model' as subject
where not exists (select from models as m where m.published)

union all
select 'lineage', m.model || ': its relation ' || m.relation_name || ' is not in the store'
from models as m
left join ops.relations as r on r.relation_name = m.relation_name and r.state = 'adopted'
where r.relation_name is null
    or not exists (
        select from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = 'store' and c.relname = m.relation_name
    )

union all
select 'lineage', m.model || ': its input ' || parent || ' is not part of the version'
from models as m
cross join lateral unnest(m.parents) as parent
where not exists (select from models as p where p.model = parent)

union all
select 'lineage', 'artifact ' || a.partition || ' was not adopted'
from target as t
join ops.manifest_artifacts as e on e.manifest_id = t.manifest_id
join ops.artifacts as a on a.artifact_id = e.artifact_id
where a.state <> 'adopted'

union all
-- the slot's view of the published shape must read the source, and the published view must read that
select 'slot', m.model
from models as m
left join ops.published_models as p on p.model = m.model and p.pipeline = %(pipeline)s
left join ops.slot_views as s
    on s.slot = %(slot)s and s.model = m.model and s.shape = p.shape and s.pipeline = p.pipeline
where m.published
    and (%(kind)s = 'publish' or p.model is not null)
    and (
        s.relation_name is distinct from m.relation_name
        or not exists (
            select from sources as r
            join reads as lower on lower.read = r.oid
            join reads as upper on upper.read = lower.view
            where r.model = m.model
                and upper.view = to_regclass(format('analytics.%%I', m.model))
                and lower.view = to_regclass(
                    format('slot_%%s.%%I', %(slot)s, m.model || coalesce('__shape' || nullif(p.shape, 1), ''))
                )
        )
    )

union all
select 'model', p.model
from ops.published_models as p
where p.pipeline = %(pipeline)s
    and %(kind)s = 'publish'
    and not exists (select from models as m where m.published and m.model = p.model)

union all
select 'rebase', shown.partition
from target as t
cross join current_version as c
join ops.manifest_artifacts as e on e.manifest_id = c.manifest_id
join ops.artifacts as shown on shown.artifact_id = e.artifact_id and shown.acceptance = 'accepted'
left join ops.manifest_artifacts as own_entry
    on own_entry.manifest_id = t.manifest_id
    and own_entry.resource = e.resource
    and own_entry.window_name = e.window_name
left join ops.artifacts as own on own.artifact_id = own_entry.artifact_id
where %(kind)s = 'publish'
    and c.manifest_id <> t.manifest_id
    and case
        -- a later version may leave out a whole resource on purpose, never a part of one
        when own.artifact_id is null then
            t.created_at <= c.created_at
            or e.resource in (select r.resource from resources as r)
        when (own.source_revision, own.revision) >= (shown.source_revision, shown.revision) then false
        -- a manifest is known by content: a later revision may have brought the same rows again
        else not exists (
            select from ops.artifacts as again
            where again.pipeline = shown.pipeline
                and again.resource = shown.resource
                and again.window_name = shown.window_name
                and again.acceptance = 'accepted'
                and (again.source_revision, again.revision) >= (shown.source_revision, shown.revision)
                and again.checksum = own.checksum
                and again.loaded = own.loaded
        )
    end
