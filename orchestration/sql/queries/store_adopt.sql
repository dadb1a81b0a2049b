-- loading -> adopted, unless somebody gave the relation up meanwhile.
update ops.relations
set
    state = 'adopted', row_count = %(row_count)s, columns = %(columns)s,
    adopted_at = clock_timestamp()
where relation_name = %(relation)s and state = 'loading' and fence = %(fence)s
