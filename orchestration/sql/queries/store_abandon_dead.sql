-- What attempts whose lease is gone were still building: loading -> abandoned.
update ops.relations as r
set state = 'abandoned'
where
    r.state = 'loading'
    and not exists (
        select from ops.leases as l
        where l.name = r.lease_name and l.fence = r.fence and l.expires_at > clock_timestamp()
    )
