-- What a suite of a pipeline said last, from the end of the table: most suites were evaluated lately.
select verdict, evaluated_at, run_id
from ops.verdicts
where pipeline = %(pipeline)s and stage = %(stage)s and suite = %(suite)s
order by verdict_id desc
limit 1
