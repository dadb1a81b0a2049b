-- What was waived in the version, and what was waived before in data that it has too.
select w.subject, w.what, w.partition, w.failing, w.decided_by, w.decided_at, w.reason
from ops.waivers as w
where
    w.version_id = %(version_id)s
    or w.waiver_id in (
        select unnest(j.waivers)
        from ops.judgements as j
        where j.version_id = %(version_id)s
    )
order by w.waiver_id
