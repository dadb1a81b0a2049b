-- Suites that failed in a run with what its pipeline says of that, and the partitions that it left out.
select
    (
        select string_agg(v.suite || ': ' || v.policy, ', ' order by v.suite)
        from (
            select distinct on (d.stage, d.suite) d.suite, d.verdict, d.results ->> 'policy' as policy
            from ops.verdicts as d
            where d.run_id = %s
            order by d.stage, d.suite, d.verdict_id desc
        ) as v
        where v.verdict = 'failed' and v.policy is not null
    ) as policies,
    (
        select string_agg(
            p.resource || '/' || p.window_name || '@' || p.revision, ', ' order by p.resource, p.window_name
        )
        from ops.run_partitions as p
        where p.run_id = %s and p.state = 'quarantined'
    ) as left_out
