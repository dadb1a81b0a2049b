-- Runs by what became of them, and how long from acceptance to the end.
select r.pipeline, coalesce(r.outcome, r.status) as outcome, count(*) as runs,
    coalesce(sum(s.seconds), 0) as total_s,
    percentile_cont(0.5) within group (order by s.seconds) as p50_s,
    percentile_cont(0.95) within group (order by s.seconds) as p95_s,
    (array_agg(s.seconds order by r.finished_at desc nulls last))[1] as last_s
from ops.runs r,
    lateral (select extract(epoch from r.finished_at - r.accepted_at)::double precision as seconds) s
where %(pipeline)s::text is null or r.pipeline = %(pipeline)s
group by 1, 2
order by 1, 2
