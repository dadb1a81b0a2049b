-- What was said of one version by one rule; judged again it is the later one that counts. A waiver of what
-- is still there goes on with the judgement that this one builds on.
insert into ops.judgements as own (
    pipeline, subject, rule, version_id, verdict, partitions, based_on, verdict_id, waivers
)
values (
    %(pipeline)s, %(subject)s, %(rule)s, %(version_id)s, %(verdict)s, %(partitions)s, %(based_on)s,
    %(verdict_id)s,
    array(
        select w.waiver_id
        from ops.waivers as w
        where
            w.waiver_id = any(%(waivers)s)
            or (
                (w.partition is null or w.partition <> all(%(partitions)s))
                and w.waiver_id in (
                    select unnest(b.waivers)
                    from ops.judgements as b
                    where
                        b.pipeline = %(pipeline)s
                        and b.subject = %(subject)s
                        and b.rule = %(rule)s
                        and b.version_id = %(based_on)s
                )
            )
        order by w.waiver_id
    )
)
on conflict (pipeline, subject, rule, version_id) do update
    set
        verdict = excluded.verdict, partitions = excluded.partitions, based_on = excluded.based_on,
        verdict_id = excluded.verdict_id, waivers = excluded.waivers, judged_at = clock_timestamp()
