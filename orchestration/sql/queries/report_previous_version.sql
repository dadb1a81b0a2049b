-- The version that readers saw before this run published, or see while what it built is not published.
select coalesce(
    (
        select b.previous_version_id
        from ops.publications as b
        where b.run_id = %(run_id)s and b.version_id = %(version_id)s and b.kind = 'publish'
        order by b.publication_id desc
        limit 1
    ),
    (
        select p.version_id
        from ops.publication_pointer as p
        where p.pipeline = %(pipeline)s and p.version_id is distinct from %(version_id)s
    )
)
