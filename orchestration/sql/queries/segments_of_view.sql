-- The segments below a view, with the hidden partitions of each and the columns that lead an index.
select
    s.segment_name,
    s.hidden,
    array(
        select distinct a.attname::text
        from pg_index as i
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        where
            i.indrelid = to_regclass(format('store.%%I', s.segment_name))
            and i.indisvalid and i.indpred is null
    ) as leading
from ops.view_segments as s
where s.view_name = %(relation_name)s
order by s.segment_name
