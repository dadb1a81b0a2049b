-- All that speaks against showing the partitioned models of this version; no row means that nothing does.
with recursive models as (
    select m.model, m.relation_name, m.parents, m.resources, r.kind
    from ops.version_models as m
    join ops.relations as r on r.relation_name = m.relation_name
    where m.version_id = %(version_id)s
),

stored as (
    select c.oid, c.relname::text as name, pg_get_userbyid(c.relowner) as owner
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = 'store' and c.relkind in ('r', 'v')
),

segmented as (
    select m.model, m.relation_name, m.relation_name || '__live' as companion
    from models as m
    where exists (select from ops.view_segments as v where v.view_name = m.relation_name)
        or exists (select from stored as s where s.name = m.relation_name || '__live')
),

segments as (
    select s.model, v.segment_name, v.hidden
    from segmented as s
    join ops.view_segments as v on v.view_name = s.relation_name
),

-- Each partitioned model and what it reads by partitions: partitioned models, and views, through to the resources.
inputs as (
    select s.model, m.model as input, m.parents, m.resources
    from segmented as s
    join models as m on m.model = s.model
    union
    select i.model, m.model, m.parents, m.resources
    from inputs as i
    join models as m on m.model = any(i.parents)
    where m.model in (select s.model from segmented as s)
        or m.kind = 'view'
),

wanted as (
    select distinct i.model, e.window_name as partition
    from inputs as i
    join ops.versions as t on t.version_id = %(version_id)s
    join ops.manifest_artifacts as e
        on e.manifest_id = t.manifest_id and e.resource = any(i.resources)
    where e.window_name <> 'snapshot'
),

shown as (
    select s.model, p.partition, count(*) as times
    from segments as s
    join ops.segment_partitions as p
        on p.relation_name = s.segment_name and p.partition <> all (s.hidden)
    group by s.model, p.partition
),

-- From the few views to what they read: the other way round, all that the catalogue has would be looked at.
reads as (
    select v.view_name, array_agg(distinct b.relname::text collate "C" order by b.relname::text collate "C") as names
    from segmented as s
    cross join lateral unnest(array[s.relation_name, s.companion]) as v (view_name)
    join pg_rewrite as w on w.ev_class = to_regclass(format('store.%%I', v.view_name))
    join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass
    join pg_class as b
        on b.oid = d.refobjid and b.oid <> w.ev_class and b.relnamespace = 'store'::regnamespace
        and b.relkind in ('r', 'v')
    group by v.view_name
)

select s.model || ': its segment ' || s.segment_name || ' is not in the store' as subject
from segments as s
left join ops.relations as r on r.relation_name = s.segment_name and r.state = 'adopted'
where r.relation_name is null
    or not exists (select from stored as t where t.name = s.segment_name)

union all
select w.model || ': partition ' || w.partition || ' is in no segment'
from wanted as w
where not exists (select from shown as s where s.model = w.model and s.partition = w.partition)

union all
select s.model || ': partition ' || s.partition || ' comes from no artifact of the version'
from shown as s
where not exists (select from wanted as w where w.model = s.model and w.partition = s.partition)

union all
select s.model || ': partition ' || s.partition || ' is in several segments'
from shown as s
where s.times > 1

-- The gate read the one view and readers get the other: both must stand on the recorded segments.
union all
select s.model || ': ' || view_name || ' does not read the segments that are recorded for it'
from segmented as s
cross join lateral unnest(array[s.relation_name, s.companion]) as v (view_name)
left join reads as r using (view_name)
where r.names is distinct from (
        select array_agg(e.segment_name order by e.segment_name collate "C")
        from segments as e
        where e.model = s.model
    )
    and not (view_name = s.relation_name and r.names = array[s.companion])

union all
select s.model || ': ' || t.name || ' was not sealed, so it may have changed since it was judged'
from segmented as s
join stored as t
    on t.name in (s.relation_name, s.companion)
    or t.name in (select e.segment_name from segments as e where e.model = s.model)
where t.owner <> 'sluice_store'
