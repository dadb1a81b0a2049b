-- The last word of each suite on what the run judged; a reused gate shows the verdict that it reused.
select v.verdict_id, v.stage, v.subject, v.suite, v.verdict, v.results, v.evaluated_at, v.partitions
from (
    select distinct on (stage, subject, suite) *
    from ops.verdicts
    where
        run_id = %(run_id)s
        or (
            stage = 'gate' and subject = %(version_id)s and run_id in (
                select c.run_id
                from ops.run_stages as s
                inner join ops.checkpoints as c on c.idempotency_key = s.idempotency_key
                where s.run_id = %(run_id)s and s.stage = 'gate'
            )
        )
    order by stage, subject, suite, verdict_id desc
) as v
order by
    v.stage = 'validate', v.verdict = 'passed', v.verdict_id
