-- What was accepted of one version by one rule; judged again it is the later one that counts.
insert into ops.judgements (
    pipeline, subject, rule, version_id, verdict, partitions, based_on, verdict_id
)
values (
    %(pipeline)s, %(subject)s, %(rule)s, %(version_id)s, %(verdict)s, %(partitions)s, %(based_on)s,
    %(verdict_id)s
)
on conflict (pipeline, subject, rule, version_id) do update
    set
        verdict = excluded.verdict, partitions = excluded.partitions, based_on = excluded.based_on,
        verdict_id = excluded.verdict_id, judged_at = clock_timestamp()
